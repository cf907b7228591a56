//! The terminal while `fdr top` has it: raw, and with a screen of its own. The terminal is as before when the command
//! ends, also by a panic or a signal.

use std::io::{self, Stdout};
use std::panic;
use std::sync::Arc;

use nix::sys::signal::{Signal, raise};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::cleanup;

/// What a panic does else.
type Hook = Arc<dyn Fn(&panic::PanicHookInfo<'_>) + Send + Sync>;

pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    entry: cleanup::Entry,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Where standard output or standard input is none.
    pub(super) fn open() -> io::Result<Screen> {
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        let mut names = cleanup::lock()?;
        let entry = names.add(give_back);
        drop(names);
        let before: Hook = Arc::from(panic::take_hook());
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        let screen = Screen { terminal, entry };
        take()?;
        Ok(screen)
    }

    /// Stops this process as ^Z does, and takes the terminal again when it goes on.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        raise(Signal::SIGTSTP)?;
        take()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        cleanup::wait_for_lock().forget(&self.entry);
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)
}

/// May be called twice. A terminal that is gone needs nothing.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
}
