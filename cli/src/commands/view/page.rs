//! The page as `cli/page/` made it, which is committed: one text with script and style inside, whose sums its policy
//! names. Served, the page asks for its data. Must never put text of a trace into the page but encoded.

/// What `npm run build` made.
const PAGE: &str = include_str!("../../../page/dist/page.html");
/// Where the policy says with whom the page may talk.
const CONNECT: &str = "connect-src 'none'";

/// The page that asks the server for its data.
pub(super) fn served() -> Vec<u8> {
    PAGE.replacen(CONNECT, "connect-src 'self'", 1).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_may_talk_to_its_server_alone_and_run_its_own_script_alone() {
        assert_eq!(PAGE.matches(CONNECT).count(), 1);
        let served = String::from_utf8(served()).expect("text");
        assert!(served.contains("default-src 'none'") && served.contains("connect-src 'self'"));
        assert!(served.contains("script-src 'sha256-") && served.contains("style-src 'sha256-"));
        assert!(!served.contains("unsafe-"));
        assert!(PAGE.len() < 300_000, "{} bytes", PAGE.len());
    }
}
