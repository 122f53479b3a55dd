//! The page of `trace patterns`: how a trace is read, in a sentence, a picture of offset against time coloured by
//! pattern, and a bar for each file or process.
//!
//! The picture is a sample of the reads, each drawn where it lies with all files end to end; a class is one path, so that
//! a chip can hide it and a page of many points stays small.

use super::charts::{self, Label, Stack};
use super::esc;
use crate::human::shown;
use crate::human::{self, float};
use forerun_trace::patterns::{Class, Group, GroupBy, Patterns, Point};
use std::fmt::Write as _;

/// Drawing space of the picture; it is stretched, so only precision matters.
const SPACE: (f64, f64) = (1000.0, 500.0);
/// Bars shown; the rest are summed up in a line.
const BARS_MAX: usize = 40;
/// Files whose borders are drawn; more would be a grey wash.
const BORDERS_MAX: usize = 48;

/// The class that colours a pattern, in the style sheet.
const fn colour(class: Class) -> &'static str {
    match class {
        Class::Sequential => "p-seq",
        Class::Looping => "p-loop",
        Class::Strided => "p-stride",
        Class::Reverse => "p-reverse",
        Class::Random => "p-random",
    }
}

/// The body of the page.
pub(super) fn body(name: &str, by: Option<GroupBy>, found: &Patterns) -> String {
    let total = &found.total;
    let mut text = format!(
        "<section><h2>{}</h2><p class=\"setup\">{} blocks read; a run of more than {} consecutive blocks of a file is \
         sequential, read again from its start it is looping (RPP paper, section 3 and Table 1).</p>\
         <div class=\"verdict\"><p class=\"headline\">{}</p><ul><li>{} of the sequential blocks were read before their \
         run was proven: a controller that waits for proof cannot read those ahead.</li></ul></div><div class=\"tiles\">",
        esc(name),
        human::count(total.references),
        found.threshold,
        esc(&headline(found)),
        human::count(total.before_proof),
    );
    for (value, words) in [
        (human::percent(total.seq_share()), "sequential or looping (“% of seq”)"),
        (human::percent(total.loop_share()), "of these, looping (“% of loop”)"),
        (human::percent(total.share(Class::Strided) + total.share(Class::Reverse)), "strided or reverse"),
        (human::percent(total.share(Class::Random)), "none of these"),
    ] {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "<div class=\"tile\"><b>{value}</b><span>{}</span></div>", esc(words));
    }
    text.push_str("</div>");
    text.push_str(&chips());
    text.push_str(&picture(found));
    text.push_str(&bars(by, found));
    text.push_str("</section>\n");
    text
}

/// The trace in a sentence.
fn headline(found: &Patterns) -> String {
    let total = &found.total;
    if total.references == 0 {
        return "The trace reads nothing.".into();
    }
    let most = Class::ALL.into_iter().max_by_key(|&class| total.of(class)).unwrap_or(Class::Random);
    let advice = match most {
        Class::Sequential => "read-ahead pays",
        Class::Looping => "read-ahead pays, and knows where to stop",
        Class::Strided | Class::Reverse => "read-ahead that only knows forward runs does not see it",
        Class::Random => "read-ahead that does not wait for proof will cost",
    };
    format!("Mostly {} ({}): {advice}.", most.name(), human::percent(total.share(most)))
}

/// One chip a class: legend of all pictures, and switch of the first.
fn chips() -> String {
    let mut text = String::from("<div class=\"chips\" role=\"group\" aria-label=\"Patterns shown\">");
    for (index, class) in Class::ALL.into_iter().enumerate() {
        let _ = write!(
            text,
            "<button type=\"button\" aria-pressed=\"true\" data-for=\"{index}\"><svg aria-hidden=\"true\">\
             <rect class=\"part {}\" width=\"20\" height=\"8\" rx=\"3\"/></svg>{}</button>",
            colour(class),
            class.name()
        );
    }
    text.push_str("</div>");
    text
}

/// Offset against time.
fn picture(found: &Patterns) -> String {
    let (Some(first), Some(last)) =
        (found.points.iter().map(|p| p.at).min(), found.points.iter().map(|p| p.at).max())
    else {
        return String::new();
    };
    let (low, high) = found.points.iter().fold((u64::MAX, 0), |(low, high), p| {
        (low.min(p.offset), high.max(p.offset.saturating_add(p.bytes)))
    });
    let x = |at: u64| SPACE.0 * float(at - first) / float((last - first).max(1));
    let y = |offset: u64| SPACE.1 * (1.0 - float(offset.saturating_sub(low)) / float((high - low).max(1)));
    let mut drawing = String::new();
    let borders = found.starts.iter().filter(|&&start| start > low && start < high);
    if borders.clone().count() <= BORDERS_MAX {
        for &start in borders {
            let at = y(start);
            let _ =
                write!(drawing, "<line class=\"grid\" x1=\"0\" x2=\"1000\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
        }
    }
    // Random below, so that the fewer points of the others are seen.
    for (index, class) in Class::ALL.into_iter().enumerate().rev() {
        let mut path = String::new();
        for &Point { at, offset, bytes, .. } in found.points.iter().filter(|p| p.class == class) {
            let _ = write!(path, "M{:.1} {:.1}V{:.1}", x(at), y(offset), y(offset.saturating_add(bytes)));
        }
        let _ =
            write!(drawing, "<path class=\"points {}\" data-run=\"{index}\" d=\"{path}\"/>", colour(class));
    }
    let span = last - first;
    let time = |share: f64| {
        if found.timed { human::duration(float(span) * share) } else { human::count(scaled(span, share)) }
    };
    let mut text = String::from("<div class=\"plot\"><div class=\"yticks\">");
    for quarter in 0..=4_u64 {
        let words = human::bytes(float((high - low) / 4 * quarter));
        let _ = write!(text, "<span style=\"bottom:{}%\">{}</span>", quarter * 25, esc(&words));
    }
    let _ = write!(
        text,
        "</div><div class=\"scatter\"><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"Offset against time\">{drawing}</svg></div><div class=\"xticks\">",
        SPACE.0, SPACE.1
    );
    for quarter in 0..=4_u32 {
        let share = f64::from(quarter) / 4.0;
        let _ = write!(text, "<span style=\"left:{}%\">{}</span>", quarter * 25, esc(&time(share)));
    }
    text.push_str("</div></div>");
    let note = format!(
        "Each mark is a read: {}, upwards the offset with files laid end to end (lines where one ends). {} reads shown.",
        if found.timed {
            "to the right the time"
        } else {
            "to the right its number, for the trace has no times"
        },
        human::count(found.points.len() as u64)
    );
    charts::figure("Where it reads, and when", &note, "", &text)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count, at most the count"
)]
fn scaled(count: u64, share: f64) -> u64 {
    (float(count) * share) as u64
}

/// A stacked bar for each row.
fn bars(by: Option<GroupBy>, found: &Patterns) -> String {
    let row = |group: &Group| Stack {
        label: Label { run: Class::ALL.len(), name: shown(&group.name).to_owned(), class: "path" },
        parts: Class::ALL
            .iter()
            .map(|&class| {
                let share = group.shares.share(class);
                (colour(class), class.name(), share, human::percent(share))
            })
            .collect(),
        value: human::count(group.shares.references),
    };
    let rows: Vec<Stack> = found.groups.iter().take(BARS_MAX).map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let what = match by {
        Some(GroupBy::Process) => "process",
        _ => "file",
    };
    let left = found.groups.len() - rows.len();
    let note = if left > 0 {
        format!(
            "Blocks read, by pattern; the {} most read, {} more are not shown.",
            rows.len(),
            human::count(left as u64)
        )
    } else {
        "Blocks read, by pattern.".into()
    };
    charts::figure(&format!("By {what}"), &note, "", &charts::stacks(&rows))
        .replace("<figure>", "<figure class=\"below\">")
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_trace::patterns::Shares;

    fn found() -> Patterns {
        let point = |at, class| Point { at, offset: at * 4096, bytes: 4096, class };
        let shares = Shares { references: 4, looping: 3, random: 1, ..Shares::default() };
        Patterns {
            threshold: 4,
            total: shares,
            groups: vec![Group { name: "<i>file</i>".into(), shares }],
            points: (0..4).map(|k| point(k, if k < 3 { Class::Looping } else { Class::Random })).collect(),
            timed: false,
            starts: vec![0, 16_384],
        }
    }

    #[test]
    fn each_read_of_the_sample_is_a_mark_of_its_class() {
        let text = body("a & b", Some(GroupBy::File), &found());
        let marks = |class: &str| {
            let from = text.find(&format!("points {class}")).expect("a path");
            text[from..].split("/>").next().expect("an element").matches('M').count()
        };
        assert_eq!((marks("p-loop"), marks("p-random"), marks("p-seq")), (3, 1, 0));
        assert!(text.contains("Mostly looping (75.0%)"), "{text}");
        assert!(text.contains("a &amp; b") && text.contains("&lt;i&gt;file") && !text.contains("<i>file"));
    }

    #[test]
    fn a_trace_without_reads_has_a_page_all_the_same() {
        let none = Patterns { total: Shares::default(), groups: Vec::new(), points: Vec::new(), ..found() };
        let text = body("x", None, &none);
        assert!(text.contains("reads nothing") && !text.contains("NaN"));
    }
}
