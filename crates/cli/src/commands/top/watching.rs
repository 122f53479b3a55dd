//! What `top` draws, and prints once, of a daemon: what it earned, its budgets, whom it helps, and what it decided.

use super::Screen;
use crate::commands::watch_all::WatchFigures;
use forerun_study::human;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table, Wrap};

/// Readers shown.
const STREAMS_MAX: usize = 12;
/// Programs shown.
const PROGRAMS_MAX: usize = 8;

fn time(ns: u64) -> String {
    human::duration(human::float(ns))
}

fn pages(pages: u64) -> String {
    human::bytes(human::float(pages) * 4096.0)
}

/// What was earned, in a few lines.
fn sums(figures: &WatchFigures) -> Vec<String> {
    let (sums, runs) = (&figures.sums, &figures.runs);
    let mut lines = vec![format!(
        "{} readers by pattern ({} slow), {} less waited for; {} of {} read ahead was read",
        human::count(sums.pattern_readers),
        human::count(sums.pattern_readers_slow),
        time(sums.pattern_earned_ns),
        pages(sums.pattern_pages_read),
        pages(sums.pattern_pages),
    )];
    let waited = match runs.without_ns {
        0 => String::new(),
        without => format!("; waited {}, without {} (estimated)", time(runs.waited_ns), time(without)),
    };
    lines.push(format!(
        "{} runs read ahead of, {} held out, {} off{waited}",
        human::count(runs.replayed),
        human::count(runs.held_out),
        human::count(runs.off),
    ));
    lines.push(format!(
        "{} windows tried, {} kept; {} small files beside others, {} of {} marks hit",
        human::count(sums.windows_tried),
        human::count(sums.windows_kept),
        human::count(sums.beside_files),
        human::count(sums.beside_marks_hit),
        human::count(sums.beside_marks),
    ));
    let number = |name: &str, of: u64| {
        if name.ends_with("_bytes") { human::bytes(human::float(of)) } else { human::count(of) }
    };
    let budget = |of: &crate::commands::watch_all::BudgetFigures| {
        let words = of.name.trim_end_matches("_bytes").replace('_', " ");
        format!("{words} {}/{}", number(&of.name, of.now), number(&of.name, of.max))
    };
    let budgets: Vec<String> = figures.budgets.iter().map(budget).collect();
    lines.push(format!(
        "{} of budgets may be used: {}",
        human::percent(figures.budget_share),
        budgets.join(", ")
    ));
    lines
}

fn title(figures: &WatchFigures) -> String {
    let observing = if figures.observe { ", observing" } else { "" };
    format!(
        " {}, watching{observing} for {}, {} resident, {} of processor time, {} events, {} lost",
        figures.forerun,
        time(figures.now_ns),
        human::bytes(human::float(figures.resident_bytes)),
        time(figures.sums.cpu_ns),
        human::count(figures.sums.events),
        human::count(figures.sums.lost_events),
    )
}

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen, figures: &WatchFigures) {
    let streams = figures.streams.len().min(STREAMS_MAX) as u16 + 2;
    let programs = figures.programs.len().min(PROGRAMS_MAX) as u16 + 2;
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(6),
        Constraint::Length(streams),
        Constraint::Length(programs),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .split(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let first = match &screen.trouble {
        // What is said of the daemon is old then.
        Some(trouble) => {
            Line::styled(human::plain(trouble), screen.style(Color::Red).add_modifier(Modifier::BOLD))
        }
        None => Line::from(vec![
            Span::styled("Forerun", bold),
            Span::raw(human::plain(&title(figures)).into_owned()),
        ]),
    };
    frame.render_widget(Paragraph::new(first), areas[0]);
    let lines = sums(figures).into_iter().map(|line| Line::from(human::plain(&line).into_owned()));
    let lines: Vec<Line<'_>> = lines.collect();
    let block = |title: &'static str| Block::new().borders(Borders::TOP).title(title);
    let earned = Paragraph::new(lines).wrap(Wrap { trim: true }).block(block(" earned "));
    frame.render_widget(earned, areas[1]);
    streams_table(frame, areas[2], figures, block(" helped now "));
    programs_table(frame, areas[3], figures, block(" programs "));
    let decisions = figures.decisions.iter().rev().map(|said| {
        let file = said.file.rsplit('/').next().unwrap_or_default();
        let ago = time(figures.now_ns.saturating_sub(said.at_ns));
        let line = format!("{ago} ago: {} (pid {}) {file} {}", said.program, said.pid, said.text);
        Line::from(human::plain(&line).into_owned())
    });
    let decisions: Vec<Line<'_>> = decisions.collect();
    frame.render_widget(Paragraph::new(decisions).block(block(" decisions ")), areas[4]);
    let dim = Style::new().add_modifier(Modifier::DIM);
    let held = if screen.held { "   held" } else { "" };
    frame.render_widget(Paragraph::new(format!("q end   space hold{held}")).style(dim), areas[5]);
}

fn streams_table(frame: &mut Frame<'_>, area: Rect, figures: &WatchFigures, block: Block<'_>) {
    let row = |stream: &crate::commands::watch_all::StreamFigures| {
        Row::new([
            human::plain(&stream.program).into_owned(),
            stream.pid.to_string(),
            human::plain(stream.file.rsplit('/').next().unwrap_or_default()).into_owned(),
            human::plain(&stream.kind).into_owned(),
            stream.rate_percent.map_or_else(|| "–".into(), |rate| human::times(human::float(rate) / 100.0)),
        ])
    };
    let rows = figures.streams.iter().take(STREAMS_MAX).map(row);
    let widths = [
        Constraint::Length(16),
        Constraint::Length(8),
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(8),
    ];
    let head =
        Row::new(["program", "pid", "file", "how", "faster"]).style(Style::new().add_modifier(Modifier::DIM));
    frame.render_widget(Table::new(rows, widths).header(head).block(block), area);
}

fn programs_table(frame: &mut Frame<'_>, area: Rect, figures: &WatchFigures, block: Block<'_>) {
    let row = |program: &crate::commands::watch_all::ProgramFigures| {
        Row::new([
            human::plain(&program.name).into_owned(),
            human::count(program.misses),
            pages(program.missed_pages),
            human::count(program.windows_kept),
            time(program.earned_ns),
        ])
    };
    let rows = figures.programs.iter().take(PROGRAMS_MAX).map(row);
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(10),
        Constraint::Length(12),
        Constraint::Length(8),
        Constraint::Length(10),
    ];
    let head = Row::new(["program", "misses", "missed", "windows", "spared"])
        .style(Style::new().add_modifier(Modifier::DIM));
    frame.render_widget(Table::new(rows, widths).header(head).block(block), area);
}

/// The figures as lines.
pub(super) fn text(figures: &WatchFigures) -> String {
    let mut lines = vec![format!("Forerun{}", title(figures))];
    lines.extend(sums(figures));
    for stream in &figures.streams {
        lines
            .push(format!("helped: {} (pid {}) {} {}", stream.program, stream.pid, stream.kind, stream.file));
    }
    for program in figures.programs.iter().take(PROGRAMS_MAX) {
        let (count, missed) = (human::count(program.misses), pages(program.missed_pages));
        lines.push(format!("missed: {} {count} times, {missed}", program.name));
    }
    // What programs and files are called their owners chose.
    lines.iter().map(|line| human::plain(line).into_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::watch_all::{DecisionFigures, ProgramFigures, StreamFigures};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn figures() -> WatchFigures {
        let mut figures = WatchFigures { forerun: "9".into(), budget_share: 0.5, ..WatchFigures::default() };
        (figures.runs.replayed, figures.runs.waited_ns, figures.runs.without_ns) =
            (3, 1_000_000_000, 4_000_000_000);
        let file = || "/srv/data.bin".to_owned();
        let (program, kind) = ("reader".to_owned(), "stride".to_owned());
        figures.streams.push(StreamFigures {
            program,
            kind,
            file: file(),
            rate_percent: Some(440),
            ..Default::default()
        });
        figures.programs.push(ProgramFigures { name: "vecdb".into(), misses: 12, ..Default::default() });
        let text = "window 128 KiB → one page".to_owned();
        figures.decisions.push(DecisionFigures { text, file: file(), ..Default::default() });
        figures
    }

    #[test]
    fn the_screen_tells_who_is_helped_what_was_decided_and_what_was_earned() {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).expect("in memory");
        terminal.draw(|frame| draw(frame, &Screen::default(), &figures())).expect("drawn");
        let drawn = terminal.backend().to_string();
        for words in [
            "without 4.00 s (estimated)",
            "reader",
            "data.bin",
            "4.40×",
            "vecdb",
            "one page",
            "50.0% of budgets",
        ] {
            assert!(drawn.contains(words), "{words} in {drawn}");
        }
        for (width, height) in [(1, 1), (10, 3), (40, 12)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("in memory");
            terminal
                .draw(|frame| draw(frame, &Screen::default(), &figures()))
                .expect("no terminal is too small");
        }
    }

    #[test]
    fn names_make_no_lines_of_their_own_and_do_not_steer_the_terminal() {
        let mut figures = figures();
        let evil = || "evil\nForerun 9, all is well\u{1b}[31m\u{202e}".to_owned();
        figures.streams[0].file = evil();
        figures.programs[0].name = evil();
        figures.decisions[0].program = evil();
        let lines = text(&figures);
        let steers = |text: &str| text.contains(|of: char| of != '\n' && of.is_control() || of == '\u{202e}');
        assert!(!steers(&lines) && lines.matches("all is well").count() == 2, "{lines:?}");
        assert!(!lines.contains("\nForerun 9, all"), "{lines}");
        let mut terminal = Terminal::new(TestBackend::new(160, 40)).expect("in memory");
        terminal.draw(|frame| draw(frame, &Screen::default(), &figures)).expect("drawn");
        let drawn = terminal.backend().to_string();
        assert!(!steers(&drawn) && drawn.matches(r"\n").count() == 3, "{drawn}");
    }

    #[test]
    fn once_prints_the_same_as_lines() {
        let text = text(&figures());
        assert!(text.contains("helped: reader (pid 0) stride /srv/data.bin"), "{text}");
        assert!(text.contains("missed: vecdb 12 times"), "{text}");
    }
}
