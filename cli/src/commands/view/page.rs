//! The committed page, as `cli/page/` built it: one text with script and style inside. Its security policy names the
//! checksums of both. If the page is served, it asks for its data. In a file to send, the data stand inside.

/// What `npm run build` made.
const PAGE: &str = include_str!("../../../page/dist/page.html");
/// Where the policy says with whom the page may talk.
const CONNECT: &str = "connect-src 'none'";

/// The page that asks the server for its data.
pub(super) fn served() -> Vec<u8> {
    PAGE.replacen(CONNECT, "connect-src 'self'", 1).into_bytes()
}

/// Where the data of a page stand that needs no server.
const DATA: &str = "<script type=\"text/plain\" id=\"data\">";

/// The page with its data inside: letters, digits, `+`, `/` and `=`.
pub(super) fn with_data(data: &str) -> Vec<u8> {
    let place = PAGE
        .find(DATA)
        .map_or(PAGE.len(), |place| place + DATA.len());
    let (before, behind) = PAGE.split_at(place);
    [before, data, behind].concat().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_reaches_only_its_server() {
        assert_eq!(PAGE.matches(CONNECT).count(), 1);
        assert_eq!(PAGE.matches(DATA).count(), 1);
        let filled = String::from_utf8(with_data("QUJD")).expect("text");
        assert!(filled.contains("id=\"data\">QUJD</script>") && filled.contains(CONNECT));
        let served = String::from_utf8(served()).expect("text");
        assert!(served.contains("default-src 'none'") && served.contains("connect-src 'self'"));
        assert!(served.contains("script-src 'sha256-") && served.contains("style-src 'sha256-"));
        assert!(!served.contains("unsafe-"));
        assert!(PAGE.len() < 300_000, "{} bytes", PAGE.len());
    }
}
