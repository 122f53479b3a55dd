//! `top`: a running server, or a watching daemon, in the terminal.
//!
//! Asks the server for its figures once a second and draws them; the differences between two answers are the rates. What is
//! drawn is in `view`, how the server is asked in `source`; here are the keys and the clock. `--once` asks once and prints,
//! for scripts.

mod source;
mod view;
mod watching;

pub(crate) use view::{back_words, lag_words};

use super::watch_all::WatchFigures;
use crate::error::CliError;
use crate::ui::Ui;
use clap::Args;
use forerun_serve::figures::Figures;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use source::{Answer, Source};
use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
pub(crate) use view::Screen;

/// Examples of the command, below its options.
pub(crate) const HELP: &str = "\
Examples:
  forerun top                                   # what 127.0.0.1:8000 serves
  forerun top http://10.0.0.7:8000
  forerun top 8001 --interval 0.2
  forerun top /run/forerun/md0.sock             # by its control socket: counters, no members and no reasons
  forerun top /run/forerun-watch/page.sock      # what `forerun watch --http` does
  forerun top --once --json | jq '.exports[0].hit_ratio'

Members, waits and reasons are known to a server that was started with --http. Keys: q or Ctrl-C ends, up and down choose the export, space holds
still.";

/// Answers that are remembered, for curves: two minutes at the usual pace.
const KEPT_MAX: usize = 120;

/// How often it is looked whether a signal came.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Options of `top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// A live page, of a server or of `watch`: http://HOST:PORT, HOST:PORT, a port of this machine, or its socket; or a server's
    /// own socket, which shows less
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    source: String,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Print the figures once and end
    #[arg(long)]
    once: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    if (0.1..=3600.0).contains(&value) { Ok(value) } else { Err("0.1 to 3600 seconds".to_owned()) }
}

/// What was heard, newest last.
#[derive(Debug, Default)]
pub(crate) struct History {
    answers: VecDeque<Figures>,
}

impl History {
    fn add(&mut self, figures: Figures) {
        // A server that was started anew counts from the beginning.
        if self.answers.back().is_some_and(|last| last.now_ns > figures.now_ns) {
            self.answers.clear();
        }
        // The page is renewed twice a second; asked more often it says the same again.
        if self.answers.back().is_some_and(|last| last.now_ns == figures.now_ns) {
            self.answers.pop_back();
        }
        if self.answers.len() == KEPT_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back(figures);
    }

    /// The last answer.
    fn last(&self) -> Option<&Figures> {
        self.answers.back()
    }

    /// Each two answers that follow one another.
    fn pairs(&self) -> impl Iterator<Item = (&Figures, &Figures)> {
        self.answers.iter().zip(self.answers.iter().skip(1))
    }
}

/// Shows a server until the user has seen enough.
pub(crate) fn top(args: &TopArgs, ui: &Ui) -> Result<(), CliError> {
    let source = Source::parse(&args.source).map_err(|why| CliError::usage("address", why, ""))?;
    let first = source.ask().map_err(|why| {
        // The trouble with a socket says already which it is.
        let place = if why.starts_with(&format!("{}: ", args.source)) { "" } else { &args.source };
        CliError::failure(place, why)
    })?;
    if args.once {
        return match &first {
            Answer::Server(figures) if ui.json => ui.print_json(figures),
            Answer::Server(figures) => ui.print(&view::text(figures)),
            Answer::Watch(figures) if ui.json => ui.print_json(figures),
            Answer::Watch(figures) => ui.print(&watching::text(figures)),
        };
    }
    if ui.json || !std::io::stdout().is_terminal() {
        let what = "it draws on a terminal, and this is none";
        return Err(CliError::usage("top", what, "add --once to print the figures of now"));
    }
    // Whoever is ended by a signal leaves the terminal as it was, too.
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    let mut terminal = ratatui::try_init()?;
    let end = watch(&mut terminal, args, &source, first, &stop, ui);
    ratatui::restore();
    end
}

fn watch(
    terminal: &mut DefaultTerminal,
    args: &TopArgs,
    source: &Source,
    first: Answer,
    stop: &AtomicBool,
    ui: &Ui,
) -> Result<(), CliError> {
    let every = Duration::from_secs_f64(args.interval);
    let mut screen = Screen { color: ui.color, counters_only: !source.is_page(), ..Screen::default() };
    let mut daemon: Option<Box<WatchFigures>> = None;
    let hear = |answer: Answer, screen: &mut Screen, daemon: &mut Option<Box<WatchFigures>>| match answer {
        Answer::Server(figures) => screen.history.add(*figures),
        Answer::Watch(figures) => *daemon = Some(figures),
    };
    hear(first, &mut screen, &mut daemon);
    let mut next = Instant::now() + every;
    while !stop.load(Ordering::Relaxed) {
        terminal.draw(|frame| match &daemon {
            Some(figures) => watching::draw(frame, &screen, figures),
            None => view::draw(frame, &screen),
        })?;
        if event::poll(next.saturating_duration_since(Instant::now()).min(LOOK_AGAIN))? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release && !press(&mut screen, key) => {
                    return Ok(());
                }
                _ => {}
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + every;
            if !screen.held {
                match source.ask() {
                    Ok(answer) => {
                        hear(answer, &mut screen, &mut daemon);
                        screen.trouble = None;
                    }
                    Err(why) => screen.trouble = Some(why),
                }
            }
        }
    }
    Ok(())
}

/// What a key does; false ends.
fn press(screen: &mut Screen, key: KeyEvent) -> bool {
    let exports = screen.history.last().map_or(0, |figures| figures.exports.len());
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Down | KeyCode::Char('j') => {
            screen.export = (screen.export + 1).min(exports.saturating_sub(1))
        }
        KeyCode::Up | KeyCode::Char('k') => screen.export = screen.export.saturating_sub(1),
        KeyCode::Char(' ') => screen.held = !screen.held,
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_serve::figures::ExportFigures;

    fn at(now_ns: u64) -> Figures {
        Figures { now_ns, exports: vec![ExportFigures::default(); 2], ..Figures::default() }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_begins_anew_with_the_server() {
        let mut history = History::default();
        for now in 0..2 * KEPT_MAX as u64 {
            history.add(at(now));
        }
        assert_eq!((history.answers.len(), history.pairs().count()), (KEPT_MAX, KEPT_MAX - 1));
        history.add(at(2 * KEPT_MAX as u64 - 1));
        assert_eq!(history.answers.len(), KEPT_MAX, "the same again is not remembered twice");
        history.add(at(3));
        assert_eq!(history.answers.len(), 1);
    }

    #[test]
    fn keys_choose_hold_and_end() {
        let mut screen = Screen::default();
        screen.history.add(at(1));
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        for expected in [1, 1] {
            assert!(press(&mut screen, plain(KeyCode::Down)));
            assert_eq!(screen.export, expected, "there are two");
        }
        assert!(press(&mut screen, plain(KeyCode::Up)) && press(&mut screen, plain(KeyCode::Up)));
        assert_eq!(screen.export, 0);
        assert!(press(&mut screen, plain(KeyCode::Char(' '))) && screen.held);
        assert!(press(&mut screen, plain(KeyCode::Char('c'))), "a c alone is no Ctrl-C");
        assert!(!press(&mut screen, plain(KeyCode::Char('q'))));
        assert!(!press(&mut screen, KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
