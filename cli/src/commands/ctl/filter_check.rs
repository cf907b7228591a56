//! Whether a new filter names any function of the process. Recording stops at a filter that names none, so a typing
//! error in it is refused.

use anyhow::bail;
use fdr_formats::filter::Filter;
use fdr_formats::model::FunctionKind;
use fdr_formats::ring::control;

use crate::ring::find::{self, RingAccess};
use crate::{selection, ui};

/// The functions and events of a process, as far as they were read from its rings.
pub(super) struct FilterCheck {
    process: u32,
    names: Vec<String>,
}

impl FilterCheck {
    pub(super) fn new(process: u32) -> FilterCheck {
        FilterCheck {
            process,
            names: Vec::new(),
        }
    }

    /// Refuses a filter that names no function and does not say `off`. The rings are read only if no function that is
    /// known so far has a name that matches: a plug-in may have brought others meanwhile.
    ///
    /// # Errors
    /// The nearest names; or the rings can't be read.
    pub(super) fn check(&mut self, text: &str) -> anyhow::Result<()> {
        // What is no filter, or too long, is refused where it is sent.
        let is_long = text.len() > control::MAX_TEXT;
        let Some(filter) = Filter::parse(text).ok().filter(|_| !is_long) else {
            return Ok(());
        };
        if filter.is_off() || self.has_match(&filter) {
            return Ok(());
        }
        self.read()?;
        if self.names.is_empty() || self.has_match(&filter) {
            return Ok(());
        }
        bail!("{}", self.refusal(&filter))
    }

    fn has_match(&self, filter: &Filter) -> bool {
        self.names.iter().any(|name| filter.matches(name))
    }

    fn read(&mut self) -> anyhow::Result<()> {
        self.names.clear();
        for mut mapped in find::rings(self.process, RingAccess::Reading)? {
            let functions = mapped.ring.take_info("").functions;
            let switched = functions
                .into_iter()
                .filter(|function| function.kind != FunctionKind::Name);
            // What counts the tasks of a function has a name that nobody types.
            let names = switched.map(|function| function.name);
            self.names.extend(names.filter(|name| !name.contains('{')));
        }
        Ok(())
    }

    fn refusal(&self, filter: &Filter) -> String {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let quoted = |words: Vec<&str>| {
            let words = words.into_iter().map(|word| format!("`{word}`"));
            words.collect::<Vec<String>>().join(", ")
        };
        let unmatched = filter.unmatched(&names);
        if unmatched.is_empty() {
            let functions = ui::things(names.len() as u64, "function");
            return format!("the filter excludes all of {functions}; off stops the recording");
        }
        format!(
            "no function matches {}, so nothing would be recorded; did you mean {}?",
            quoted(unmatched),
            quoted(selection::nearest_names(filter, &names))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_nearest_functions() {
        let names = ["app::compact", "app::load", "app::run"].map(str::to_owned);
        let known = FilterCheck {
            process: 0,
            names: names.to_vec(),
        };
        let refusal = |text: &str| {
            let filter = Filter::parse(text).unwrap();
            assert!(!known.has_match(&filter));
            known.refusal(&filter)
        };
        assert_eq!(
            refusal("app::compct"),
            "no function matches `app::compct`, so nothing would be recorded; did you mean `app::compact`, `app::load`, \
             `app::run`?"
        );
        assert_eq!(
            refusal("app::load,-*"),
            "the filter excludes all of 3 functions; off stops the recording"
        );
        assert!(known.has_match(&Filter::parse("compct,app::run").unwrap()));
    }
}
