//! What `top` draws, and what `top --once` prints: a server's figures, and rates from the last two answers.
//!
//! From top to bottom: the server; its exports, where there are several; how the chosen export's blocks are served, with curves of
//! the rates; its members; and why the scheme reads ahead or does not. Nothing here asks anybody.

use super::History;
use forerun_core::policy::decisions::Told;
use forerun_serve::figures::{
    ArrayFigures, BackFigures, ExportFigures, Figures, LagFigures, MemberFigures, OutcomeFigures, WorkFigures,
};
use forerun_study::human;
use forerun_study::reasons::{self, Who, Without};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Sparkline, Table, Wrap};

/// What is shown.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    /// What was heard.
    pub(crate) history: History,
    /// Number of the chosen export.
    pub(crate) export: usize,
    /// Nothing is asked for the moment.
    pub(crate) held: bool,
    /// Why the last look failed.
    pub(crate) trouble: Option<String>,
    /// Colours may be used.
    pub(crate) color: bool,
    /// Who answers knows no members and no reasons.
    pub(crate) counters_only: bool,
}

/// Names and colours of the outcomes, in their order.
const OUTCOMES: [(&str, Color, char); 4] = [
    ("cache", Color::Blue, '█'),
    ("prefetch", Color::Green, '▓'),
    ("late", Color::Yellow, '▒'),
    ("miss", Color::Red, '░'),
];
/// Decisions shown.
const DECISIONS_MAX: usize = 5;
/// Lines of what is not well.
const TROUBLE_LINES_MAX: usize = 3;
/// Members shown in full; of more only the first.
const MEMBERS_MAX: usize = 16;

impl Screen {
    pub(crate) fn style(&self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }
}

/// What happened between two answers of an export.
#[derive(Clone, Debug, Default)]
struct Step {
    seconds: f64,
    outcomes: [u64; 4],
    bytes_read: u64,
    member_bytes: u64,
    reads: u64,
    waited_ns: u64,
    answered: u64,
}

/// A rate for a curve or a table.
fn per(count: u64, seconds: f64) -> f64 {
    human::float(count) / seconds.max(1e-3)
}

fn outcomes(export: &ExportFigures) -> [u64; 4] {
    [
        export.counters.cache_hits,
        export.counters.prefetch_hits,
        export.counters.late_hits,
        export.counters.misses,
    ]
}

fn step(before: &Figures, after: &Figures, export: usize) -> Step {
    let none = ExportFigures::default();
    let [a, b] = [before, after].map(|figures| figures.exports.get(export).unwrap_or(&none));
    let [was, is] = [a, b].map(outcomes);
    let sum =
        |of: fn(&OutcomeFigures) -> u64, export: &ExportFigures| export.outcomes.iter().map(of).sum::<u64>();
    let grown = |of: fn(&OutcomeFigures) -> u64| sum(of, b).saturating_sub(sum(of, a));
    Step {
        seconds: human::float(after.now_ns.saturating_sub(before.now_ns)) / 1e9,
        outcomes: std::array::from_fn(|k| is[k].saturating_sub(was[k])),
        bytes_read: b.counters.bytes_read.saturating_sub(a.counters.bytes_read),
        member_bytes: b.member_bytes_read.saturating_sub(a.member_bytes_read),
        reads: b.counters.reads.saturating_sub(a.counters.reads),
        waited_ns: grown(|outcome| outcome.waited_ns),
        answered: grown(|outcome| outcome.reads),
    }
}

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let Some(figures) = screen.history.last() else { return };
    let none = ExportFigures::default();
    let export = figures.exports.get(screen.export).unwrap_or(&none);
    let several = if figures.exports.len() > 1 { figures.exports.len().min(8) as u16 + 1 } else { 0 };
    let members = export.members.len().min(MEMBERS_MAX) as u16 + 1;
    let lines = served_lines(screen, export, frame.area().width);
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(several),
        Constraint::Length(lines.len() as u16 + 1),
        Constraint::Length(4),
        Constraint::Length(members + 1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .split(frame.area());
    frame.render_widget(Paragraph::new(title(screen, figures)), areas[0]);
    if several > 0 {
        exports(frame, areas[1], screen, figures);
    }
    served(frame, areas[2], lines, export);
    curves(frame, areas[3], screen);
    member_table(frame, areas[4], screen, export);
    why(frame, areas[5], screen, figures, export);
    let keys = "q end   ↑↓ export   space hold";
    frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::DIM)), areas[6]);
}

fn title<'t>(screen: &Screen, figures: &Figures) -> Line<'t> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let version = if figures.forerun.is_empty() { String::new() } else { format!(" {}", figures.forerun) };
    let running = human::duration(human::float(figures.now_ns));
    let words = format!("{version}, running {running}, {} clients", figures.connections);
    let mut spans = vec![Span::styled("Forerun", bold)];
    // Before what a narrow terminal cuts.
    if screen.held {
        spans.push(Span::styled(" (held)", screen.style(Color::Yellow)));
    }
    spans.push(Span::raw(words));
    if figures.resident_bytes > 0 {
        spans.push(Span::raw(format!(
            ", {} resident, CPU {}",
            human::bytes(human::float(figures.resident_bytes)),
            human::duration(human::float(figures.cpu_ns)),
        )));
    }
    // What is said of the server is old then.
    if let Some(trouble) = &screen.trouble {
        return Line::styled(trouble.clone(), screen.style(Color::Red).add_modifier(Modifier::BOLD));
    }
    Line::from(spans)
}

/// The last step of an export; empty before the second answer.
fn last_step(screen: &Screen, export: usize) -> Step {
    screen.history.pairs().last().map_or_else(Step::default, |(a, b)| step(a, b, export))
}

fn exports(frame: &mut Frame<'_>, area: Rect, screen: &Screen, figures: &Figures) {
    let rows = figures.exports.iter().enumerate().map(|(number, export)| {
        let now = last_step(screen, number);
        let name = if export.name.is_empty() { "(default)" } else { &export.name };
        let row = Row::new([
            name.to_owned(),
            export.scheme.clone(),
            human::percent(export.counters.hit_ratio),
            human::rate(per(now.bytes_read, now.seconds)),
        ]);
        let chosen = number == screen.export;
        row.style(if chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() })
    });
    // The chosen one is always among those that there is room for.
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    let rows = rows.skip((screen.export + 1).saturating_sub(room));
    let widths = [Constraint::Fill(2), Constraint::Fill(2), Constraint::Length(8), Constraint::Length(14)];
    let head = Row::new(["export", "scheme", "hits", "read"]).style(Style::new().add_modifier(Modifier::DIM));
    frame.render_widget(Table::new(rows, widths).header(head), area);
}

fn shares(outcomes: &[u64; 4]) -> [f64; 4] {
    let all = human::float(outcomes.iter().sum::<u64>().max(1));
    outcomes.map(|count| human::float(count) / all)
}

/// A bar of the four outcomes, as wide as there is room.
fn bar<'t>(screen: &Screen, outcomes: &[u64; 4], width: u16) -> Line<'t> {
    let (mut spans, mut done, mut sum) = (Vec::new(), 0, 0.0);
    for (share, (_, color, sign)) in shares(outcomes).into_iter().zip(OUTCOMES) {
        sum += share;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a width")]
        let end = (sum * f64::from(width)).round() as usize;
        spans.push(Span::styled(sign.to_string().repeat(end.saturating_sub(done)), screen.style(color)));
        done = end.max(done);
    }
    Line::from(spans)
}

fn served(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>, export: &ExportFigures) {
    let block = Block::new().borders(Borders::TOP).title(format!(
        " {} of {}, {}, cache {} of {} ",
        human::bytes(human::float(export.size_bytes)),
        export.array,
        export.scheme,
        human::bytes(human::float(export.cache_bytes)),
        human::bytes(human::float(export.cache_bytes_max)),
    ));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// How reads are served, and how what lies below stands: lines of at most so many columns.
fn served_lines(screen: &Screen, export: &ExportFigures, width: u16) -> Vec<Line<'static>> {
    let now = last_step(screen, screen.export);
    let wide = usize::from(width);
    let legend: Vec<Span<'static>> = OUTCOMES
        .iter()
        .zip(shares(&now.outcomes))
        .flat_map(|((name, color, sign), share)| {
            [
                Span::styled(format!("{sign} "), screen.style(*color)),
                Span::raw(format!("{name} {}   ", human::percent(share))),
            ]
        })
        .collect();
    let mean = if now.answered > 0 { per(now.waited_ns, human::float(now.answered)) } else { 0.0 };
    let used = export.counters.used + export.counters.wasted;
    let used = if used > 0 {
        human::percent(human::float(export.counters.used) / human::float(used))
    } else {
        "–".into()
    };
    let figures = vec![
        format!(
            "now: {} reads/s, a read waits {}",
            human::digits(per(now.reads, now.seconds)),
            human::duration(mean)
        ),
        format!(
            "since the start: hits {}, {used} of what was read ahead was read",
            human::percent(export.counters.hit_ratio)
        ),
    ];
    let mut rates = vec![format!("clients {}", human::rate(per(now.bytes_read, now.seconds)))];
    if !export.members.is_empty() {
        rates.push(format!("members {}", human::rate(per(now.member_bytes, now.seconds))));
    }
    rates.extend(lag(export));
    let (color, trouble) = match &export.changed {
        Some(why) => (Color::Red, vec![format!("FAILED, nothing is answered: {why}")]),
        None => (Color::Yellow, export.warnings.iter().map(|warning| format!("{warning};")).collect()),
    };
    let style = screen.style(color);
    let mut lines: Vec<Line<'static>> = folded(&trouble, wide)
        .into_iter()
        .take(TROUBLE_LINES_MAX)
        .map(|line| Line::styled(line, style))
        .collect();
    if export.changed.is_none() {
        lines.push(bar(screen, &now.outcomes, width));
    }
    lines.push(Line::from(legend));
    let back = export.write_back.as_ref().map(back_parts).unwrap_or_default();
    let array = export.raid.as_ref().map(array_parts).unwrap_or_default();
    let without = without(export).map(|without| without.words()).into_iter().collect();
    for parts in [figures, without, rates, back, array] {
        lines.extend(folded(&parts, wide).into_iter().map(Line::from));
    }
    lines
}

/// What readers would have waited without prefetching, where `auto` knows it.
fn without(export: &ExportFigures) -> Option<Without> {
    Without::of(export.gauges.iter().map(|(name, value)| (name.as_str(), *value)))
}

/// Parts of a line, as many to each line as there is room for; one that is too long goes on in the next.
fn folded(parts: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut put = |piece: &str, gap: &str| match lines.last_mut() {
        Some(line)
            if line.chars().count() + gap.len() + piece.chars().count() <= width && !gap.is_empty() =>
        {
            line.push_str(gap);
            line.push_str(piece);
        }
        _ => lines.push(piece.to_owned()),
    };
    for (number, part) in parts.iter().enumerate() {
        let gap = if number == 0 { "" } else { "   " };
        if part.chars().count() <= width {
            put(part, gap);
            continue;
        }
        for (place, word) in part.split(' ').enumerate() {
            put(word, if place == 0 { gap } else { " " });
        }
    }
    lines
}

/// How long reads and writes took in the last ten seconds, and those of the client who waited longest: a mean hides him.
fn lag(export: &ExportFigures) -> impl Iterator<Item = String> {
    let both = [lag_words("", &export.lag), lag_words("writes ", &export.write_lag)];
    both.into_iter().filter(|words| !words.is_empty()).map(|words| words.trim_start().to_owned())
}

/// How write-back stands, in one line.
pub(crate) fn back_words(back: &BackFigures) -> String {
    back_parts(back).join(", ")
}

/// The same in parts.
fn back_parts(back: &BackFigures) -> Vec<String> {
    let bytes = |bytes: u64| human::bytes(human::float(bytes));
    let state = match (back.broken, back.stuck) {
        (true, _) => Some("NOTHING IS WRITTEN ANY MORE"),
        (false, true) => Some("WRITES ARE REFUSED"),
        (false, false) => None,
    };
    let mut parts = vec![
        format!(
            "held back {} of {} (the oldest {})",
            bytes(back.dirty_bytes),
            bytes(back.dirty_bytes_max),
            human::duration(human::float(back.dirty_age_ns))
        ),
        format!("journal {} of {}", bytes(back.journal_bytes), bytes(back.journal_bytes_max)),
        format!("{} go home", human::rate(human::float(back.home_bytes_per_second))),
    ];
    parts.extend(state.map(str::to_owned));
    parts
}

/// How an array of our own stands: who is out, and what is rebuilt or scrubbed.
fn array_parts(array: &ArrayFigures) -> Vec<String> {
    let out: Vec<String> = array.out.iter().map(u16::to_string).collect();
    let state = match &out[..] {
        [] => format!("array: all {} members are in", array.members),
        [one] => format!("array: member {one} of {} is OUT", array.members),
        _ => format!("array: members {} of {} are OUT", out.join(", "), array.members),
    };
    let works = array.rebuild.iter().chain(&array.scrub).map(WorkFigures::words);
    std::iter::once(state).chain(works).collect()
}

/// The same of one kind of requests; nothing where there were none.
pub(crate) fn lag_words(kind: &str, lag: &LagFigures) -> String {
    let Some(worst) = lag.clients.first() else { return String::new() };
    let time = |ns: u64| human::duration(human::float(ns));
    let [p50, p95, p99] = [lag.p50_ns, lag.p95_ns, lag.p99_ns].map(time);
    let (client, worst) = (worst.client, time(worst.p99_ns));
    format!("   {kind}p50 {p50}, p95 {p95}, p99 {p99}; of client {client} p99 {worst}")
}

fn curves(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let steps: Vec<Step> = screen.history.pairs().map(|(a, b)| step(a, b, screen.export)).collect();
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(area);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a curve")]
    let mut curve = |area: Rect, words: &'static str, color: Color, of: &dyn Fn(&Step) -> f64| {
        let width = usize::from(area.width);
        let values: Vec<u64> =
            steps[steps.len().saturating_sub(width)..].iter().map(|s| of(s) as u64).collect();
        let block = Block::new().borders(Borders::TOP).title(words);
        let line = Sparkline::default().block(block).style(screen.style(color)).data(values);
        frame.render_widget(line, area);
    };
    curve(left, " clients read ", Color::Blue, &|step| per(step.bytes_read, step.seconds));
    curve(right, " waiting, all readers ", Color::Red, &|step| per(step.waited_ns, step.seconds));
}

fn member_name(member: &MemberFigures) -> String {
    let name = member.name.rsplit('/').next().unwrap_or_default();
    member.emulates.as_ref().map_or_else(|| name.to_owned(), |model| format!("{name} as {model}"))
}

/// A line of a table: what a member did between two answers.
fn member(before: Option<&MemberFigures>, now: &MemberFigures, seconds: f64) -> [String; 7] {
    let Some(was) = before else {
        // Sums since the server began say nothing of now.
        let [busy, commands, seeks, took, read] = ["–"; 5].map(str::to_owned);
        return [member_name(now), busy, human::count(now.queue), commands, seeks, took, read];
    };
    let grown = |of: fn(&MemberFigures) -> u64| of(now).saturating_sub(of(was));
    let commands = grown(|m| m.reads) + grown(|m| m.writes);
    let took = if commands > 0 { per(grown(|m| m.took_ns), human::float(commands)) } else { 0.0 };
    [
        member_name(now),
        human::percent((per(grown(|m| m.busy_ns), seconds) / 1e9).min(1.0)),
        human::count(now.queue),
        format!("{}/s", human::digits(per(commands, seconds))),
        format!("{}/s", human::digits(per(grown(|m| m.seeks), seconds))),
        human::duration(took),
        human::rate(per(grown(|m| m.bytes_read), seconds)),
    ]
}

const MEMBER_HEAD: [&str; 7] = ["member", "busy", "queue", "commands", "seeks", "each took", "read"];

fn member_table(frame: &mut Frame<'_>, area: Rect, screen: &Screen, export: &ExportFigures) {
    let before = screen.history.pairs().last().and_then(|(before, _)| before.exports.get(screen.export));
    let seconds = last_step(screen, screen.export).seconds;
    let rows = export.members.iter().take(MEMBERS_MAX).enumerate().map(|(number, now)| {
        Row::new(member(before.and_then(|before| before.members.get(number)), now, seconds))
    });
    let width = [Constraint::Min(12)].into_iter().chain([7, 6, 9, 9, 9, 10].map(Constraint::Length));
    let head = Row::new(MEMBER_HEAD).style(Style::new().add_modifier(Modifier::DIM));
    let more = export.members.len().saturating_sub(MEMBERS_MAX);
    let title = if more > 0 { format!(" members (and {more} more) ") } else { " members ".to_owned() };
    let block = Block::new().borders(Borders::TOP).title(title);
    frame.render_widget(Table::new(rows, width).header(head).block(block), area);
}

/// `for client 3, 12.0 s ago: why (numbers)`, after what has turned and to what.
fn because(turn: &Told, now_ns: u64) -> String {
    let of =
        turn.of.as_ref().map_or_else(String::new, |of| format!(" for {}", reasons::whose(of, Who::Client)));
    let ago = human::duration(human::float(now_ns.saturating_sub(turn.at_ns)));
    format!("{of}, {ago} ago: {} ({})", turn.reason, reasons::numbers(turn))
}

fn why(frame: &mut Frame<'_>, area: Rect, screen: &Screen, figures: &Figures, export: &ExportFigures) {
    let line = |turn: &Told| {
        let color = if turn.on { Color::Green } else { Color::Yellow };
        Line::from(vec![
            Span::raw(format!("{} ", turn.switch)),
            Span::styled(turn.to.clone(), screen.style(color)),
            Span::raw(because(turn, figures.now_ns)),
        ])
    };
    let mut lines: Vec<Line<'_>> = export.decisions.iter().rev().take(DECISIONS_MAX).map(line).collect();
    if lines.is_empty() {
        let known = "the scheme has not turned a switch";
        let unknown = "a control socket knows the counters only: start the server with --http to see members and reasons";
        lines.push(Line::from(if screen.counters_only { unknown } else { known }));
    }
    let block = Block::new().borders(Borders::TOP).title(" why it reads ahead, or does not ");
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }).block(block), area);
}

/// The figures of now, for `--once`: sums since the start.
pub(super) fn text(figures: &Figures) -> String {
    let whole = Screen::default();
    let mut out = format!("{}\n", title(&whole, figures));
    for export in &figures.exports {
        let counts = outcomes(export);
        let parts: Vec<String> = OUTCOMES
            .iter()
            .zip(shares(&counts))
            .map(|((name, ..), share)| format!("{name} {}", human::percent(share)))
            .collect();
        let name = if export.name.is_empty() { String::new() } else { format!("{}: ", export.name) };
        out.push_str(&format!(
            "\n{name}{}, {}, {}\n  read {} in {} requests: {}\n  prefetched {} blocks, used {}, wasted {}{}\n",
            human::bytes(human::float(export.size_bytes)),
            export.array,
            export.scheme,
            human::bytes(human::float(export.counters.bytes_read)),
            human::count(export.counters.reads),
            parts.join(", "),
            human::count(export.counters.prefetched_blocks),
            human::count(export.counters.used),
            human::count(export.counters.wasted),
            if export.members.is_empty() {
                String::new()
            } else {
                format!("; members read {}", human::bytes(human::float(export.member_bytes_read)))
            },
        ));
        let without = without(export).map(|without| without.words());
        let back = export.write_back.as_ref().map(back_words);
        let array = export.raid.as_ref().map(|array| array_parts(array).join("; "));
        let failed = export
            .changed
            .iter()
            .map(|why| format!("{why}: it answers with errors only; start the server anew"));
        let warnings = export.warnings.iter().cloned();
        for words in failed.chain(without).chain(back).chain(array).chain(warnings) {
            out.push_str(&format!("  {words}\n"));
        }
        for turn in export.decisions.iter().rev().take(DECISIONS_MAX) {
            out.push_str(&format!("  {} {}{}\n", turn.switch, turn.to, because(turn, figures.now_ns)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::policy::decisions::ToldOf;
    use forerun_serve::figures::Counters;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn figures(second: u64) -> Figures {
        let export = ExportFigures {
            scheme: "asp+msp".into(),
            array: "raid0:2x128KiB".into(),
            size_bytes: 1 << 30,
            counters: Counters {
                reads: 100 * second,
                bytes_read: second * (100 << 10),
                prefetch_hits: 15 * second,
                misses: 5 * second,
                hit_ratio: 0.75,
                used: 3,
                wasted: 1,
                ..Counters::default()
            },
            outcomes: vec![OutcomeFigures {
                how: "miss".into(),
                reads: 10 * second,
                waited_ns: second * 20_000_000,
            }],
            members: vec![MemberFigures {
                name: "/tmp/m0.img".into(),
                emulates: Some("cheetah-15k4".into()),
                queue: 3,
                reads: 50 * second,
                seeks: 7 * second,
                busy_ns: second * 500_000_000,
                took_ns: second * 50 * 4_000_000,
                ..MemberFigures::default()
            }],
            decisions: vec![Told {
                at_ns: 1_000_000_000,
                switch: "asp".into(),
                turn: 1,
                to: "off".into(),
                on: false,
                of: None,
                reason: "it costs more".into(),
                because: [("cost_none_ns".to_owned(), 2_000_000_u64), ("streams".to_owned(), 7)].into(),
            }],
            ..ExportFigures::default()
        };
        let other = ExportFigures { name: "other".into(), ..ExportFigures::default() };
        Figures {
            version: 1,
            now_ns: second * 1_000_000_000,
            connections: 2,
            exports: vec![export, other],
            ..Figures::default()
        }
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test's terminal");
        terminal.draw(|frame| draw(frame, screen)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }

    fn screen() -> Screen {
        let mut screen = Screen::default();
        screen.history.add(figures(1));
        screen.history.add(figures(3));
        screen
    }

    #[test]
    fn rates_are_differences_of_two_answers_and_reasons_are_spelled_out() {
        let text = drawn(&screen(), 120, 30);
        for words in [
            "running 3.00 s, 2 clients",
            "1.00 GiB of raid0:2x128KiB, asp+msp",
            "prefetch 75.0%",
            "miss 25.0%",
            "100 reads/s, a read waits 2.00 ms",
            "hits 75.0%, 75.0% of what was read ahead was read",
            "clients 100 KiB/s",
            "m0.img as cheetah-15k4",
            "asp off, 2.00 s ago: it costs more (cost none 2.00 ms, streams 7)",
            "q end",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        let row = text.lines().find(|line| line.starts_with("m0.img")).expect("the member's row");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells[3..9], ["50.0%", "3", "50.0/s", "7.00/s", "4.00", "ms"], "{row}");
    }

    #[test]
    fn who_waited_longest_is_named_of_reads_and_of_writes() {
        use forerun_serve::figures::ClientLag;
        let lag = |client, p99_ns| LagFigures {
            p50_ns: 16_000,
            p95_ns: 1_000_000,
            p99_ns: 2_000_000,
            clients: vec![ClientLag { client, p99_ns, ..ClientLag::default() }],
            ..LagFigures::default()
        };
        let export = ExportFigures {
            lag: lag(3, 39_000_000),
            write_lag: lag(4, 50_000_000),
            ..ExportFigures::default()
        };
        let words: Vec<String> = super::lag(&export).collect();
        assert_eq!(
            words,
            [
                "p50 16.0 µs, p95 1.00 ms, p99 2.00 ms; of client 3 p99 39.0 ms",
                "writes p50 16.0 µs, p95 1.00 ms, p99 2.00 ms; of client 4 p99 50.0 ms"
            ]
        );
        assert_eq!(super::lag(&ExportFigures::default()).count(), 0);
    }

    /// An export with all that there can be: write-back, and an array of which a member is out.
    fn array_with_write_back() -> Screen {
        let mut figures = figures(3);
        figures.resident_bytes = 300 << 20;
        figures.cpu_ns = 754_000_000_000;
        let export = &mut figures.exports[0];
        export.warnings = vec!["member 1 is out: its writes failed; the array goes on without it".into()];
        export.write_back = Some(BackFigures {
            dirty_bytes: 63 << 20,
            dirty_bytes_max: 64 << 20,
            dirty_age_ns: 29_000_000_000,
            journal_bytes: 200 << 20,
            journal_bytes_max: 256 << 20,
            home_bytes_per_second: 12 << 20,
            ..BackFigures::default()
        });
        let rebuild = WorkFigures { member: Some(1), done: 41, all: 100, ..WorkFigures::default() };
        let scrub = WorkFigures { done: 50, all: 100, blocks: 123_456, ..WorkFigures::default() };
        export.raid = Some(ArrayFigures {
            level: "raid5:3x64KiB".into(),
            members: 3,
            out: vec![1],
            rebuild: Some(rebuild),
            scrub: Some(scrub),
        });
        let mut screen = Screen { held: true, ..Screen::default() };
        screen.history.add(figures);
        screen
    }

    #[test]
    fn eighty_columns_have_room_for_all_that_is_said_of_write_back_and_arrays() {
        let screen = array_with_write_back();
        let text = drawn(&screen, 80, 30);
        for words in [
            "Forerun (held), running 3.00 s, 2 clients, 300 MiB resident, CPU 12 min 34 s",
            "member 1 is out: its writes failed; the array goes on without it;",
            "since the start: hits 75.0%, 75.0% of what was read ahead was read",
            "held back 63.0 MiB of 64.0 MiB (the oldest 29.0 s)   journal 200 MiB of 256 MiB",
            "12.0 MiB/s go home",
            "array: member 1 of 3 is OUT   rebuild of member 1: 41% of 100 stripes",
            "scrub: 50% of 100 stripes, 123456 blocks compared, 0 differ",
            "m0.img as cheetah-15k4",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        let figures = screen.history.last().expect("added");
        let once = super::text(figures);
        assert!(
            once.contains("  held back 63.0 MiB of 64.0 MiB")
                && once.contains("  array: member 1 of 3 is OUT; ")
        );
    }

    #[test]
    fn lines_are_folded_between_their_parts_and_only_too_long_ones_within() {
        let parts = ["one two".to_owned(), "three".to_owned(), "four five six seven".to_owned()];
        assert_eq!(folded(&parts, 15), ["one two   three", "four five six", "seven"]);
        assert_eq!(folded(&parts, 80), ["one two   three   four five six seven"]);
        assert_eq!(folded(&[], 80), [""; 0]);
    }

    #[test]
    fn a_decision_for_one_of_many_says_for_whom() {
        let mut figures = figures(3);
        figures.exports[0].decisions[0] = Told {
            at_ns: 2_000_000_000,
            switch: "cadence".into(),
            turn: 4,
            to: "refused".into(),
            on: false,
            of: Some(ToldOf {
                kind: "stream".into(),
                number: 7,
                process: 2,
                file: 0,
                first_block: 1 << 18,
                blocks: 16,
            }),
            reason: "it would not fit".into(),
            because: [("memory_bytes".to_owned(), 5 << 20), ("disk_time_percent".to_owned(), 91)].into(),
        };
        let mut screen = Screen::default();
        screen.history.add(figures);
        let text = drawn(&screen, 160, 30);
        let words = "cadence refused for stream 7 of client 2 at 1.00 GiB, 1.00 s ago: it would not fit \
                     (disk time 91%, memory 5.00 MiB)";
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn another_export_can_be_chosen_and_has_its_own_figures() {
        let mut screen = screen();
        screen.export = 1;
        let text = drawn(&screen, 100, 30);
        assert!(text.contains("other") && text.contains("the scheme has not turned a switch"), "{text}");
        assert!(!text.contains("m0.img"), "{text}");
    }

    #[test]
    fn a_bar_is_as_wide_as_there_is_room_and_split_by_the_outcomes() {
        let screen = Screen::default();
        let line = bar(&screen, &[0, 15, 0, 5], 40);
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        assert_eq!(text, format!("{}{}", "▓".repeat(30), "░".repeat(10)));
        assert!(bar(&screen, &[0; 4], 40).spans.iter().all(|span| span.content.is_empty()));
    }

    #[test]
    fn no_terminal_is_too_small() {
        for (width, height) in [(1, 1), (5, 3), (20, 10), (300, 100)] {
            drawn(&screen(), width, height);
        }
        drawn(&Screen::default(), 80, 24);
        let mut gone = screen();
        gone.export = 99;
        gone.trouble = Some("it is gone".into());
        assert!(drawn(&gone, 120, 30).contains("it is gone"));
    }

    #[test]
    fn under_auto_it_is_told_what_readers_would_have_waited_without_prefetching() {
        let mut figures = figures(2);
        let gauges = [("auto_wait_ns", 2e9), ("auto_wait_foretold_ns", 1.9e9), ("auto_wait_without_ns", 5e9)];
        figures.exports[0].gauges = gauges.map(|(name, value)| (name.to_owned(), value)).into();
        let said =
            "without prefetching readers would have waited 5.00 s by auto's shadows; they waited 2.00 s";
        assert!(text(&figures).contains(said));
        let lines = served_lines(&Screen::default(), &figures.exports[0], 200);
        assert!(lines.iter().any(|line| line.to_string().contains(said)));
    }

    #[test]
    fn once_prints_the_sums_of_every_export() {
        let mut two = figures(2);
        two.exports[0].changed = Some("disk.img: its size has changed while it was served".into());
        let text = text(&two);
        assert!(text.contains("served: it answers with errors only; start the server anew"), "{text}");
        assert!(text.contains("read 200 KiB in 200 requests: cache 0.0%, prefetch 75.0%"), "{text}");
        assert!(!text.contains("without prefetching"), "no auto");
        assert!(text.contains("\nother: ") && text.contains("asp off, 1.00 s ago"), "{text}");
    }
}
