//! Why each scheme read ahead, or did not: the turns of its switches, as a table for each run.

use super::esc;
use crate::human::{self, float};
use crate::reasons::{self, Who};
use forerun_core::policy::decisions::Told;
use forerun_sim::report::{LayerReport, RunReport};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The card; nothing where no scheme has turned a switch.
pub(super) fn card(runs: &[&RunReport]) -> String {
    let mut tables = String::new();
    for (index, run) in runs.iter().enumerate() {
        for layer in run.layers.iter().filter(|layer| !layer.decisions.is_empty()) {
            tables.push_str(&table(index, run, layer));
        }
    }
    if tables.is_empty() {
        return tables;
    }
    format!(
        "<details class=\"card\"><summary>Why each scheme read ahead, or did not</summary><p class=\"setup\">Turns of \
         the switches of each scheme, with the numbers that it looked at: the first, and the last. Linux read-ahead, \
         AMP and SARC have no switch: they decide for each request.</p>{tables}</details>\n"
    )
}

fn table(index: usize, run: &RunReport, layer: &LayerReport) -> String {
    let turns = match reasons::turns(layer) {
        1 => "1 turn".to_owned(),
        turns => format!("{} turns", human::count(turns)),
    };
    let mut text = format!(
        "<div data-run=\"{index}\"><h4>{}: {} in the {} layer</h4><div class=\"scroll\"><table><thead><tr>\
         <th>at</th><th class=\"text\">part</th><th class=\"text\">for</th><th class=\"text\">turned</th>\
         <th class=\"text\">because</th><th class=\"text\">numbers</th></tr></thead><tbody>",
        esc(&run.scheme),
        turns,
        esc(&layer.layer)
    );
    let (mut before, mut is_said) = (BTreeMap::new(), false);
    for turn in &layer.decisions {
        // Those that are left out come before the first that is not the next of its switch.
        let is_next = before.insert(&turn.switch, turn.turn).unwrap_or(0) + 1 == turn.turn;
        let left = reasons::turns(layer).saturating_sub(layer.decisions.len() as u64);
        if left > 0 && !is_next && !is_said {
            is_said = true;
            // Writing to a string cannot fail, here and below.
            let _ = write!(
                text,
                "<tr class=\"base\"><td>…</td><td class=\"text\" colspan=\"5\">{} more</td></tr>",
                human::count(left)
            );
        }
        text.push_str(&row(turn));
    }
    text.push_str("</tbody></table></div></div>");
    text
}

fn row(turn: &Told) -> String {
    let of = turn.of.as_ref().map_or_else(|| "all".into(), |of| reasons::whose(of, Who::Process));
    let class = if turn.on { "holds" } else { "fails" };
    format!(
        "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text {class}\">{}</td>\
         <td class=\"text wide\">{}</td><td class=\"text wide\">{}</td></tr>",
        human::duration(float(turn.at_ns)),
        esc(&turn.switch),
        esc(&of),
        esc(&turn.to),
        esc(&turn.reason),
        esc(&reasons::numbers(turn))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_tells_the_turns_of_the_schemes_that_have_a_switch_and_nothing_of_others() {
        let plain = crate::sample::run("one", "linux-6", 10);
        assert_eq!(card(&[&plain]), "");
        let turn =
            |number| Told { switch: "asp".into(), turn: number, reason: "a<b".into(), ..Told::default() };
        let kept = (1..=8).chain(90..=99).map(turn).collect();
        let layer = LayerReport { layer: "array".into(), decisions: kept, ..LayerReport::default() };
        let run = RunReport { layers: vec![layer], ..crate::sample::run("one", "asp", 10) };
        let page = card(&[&plain, &run]);
        assert!(page.contains("<div data-run=\"1\"><h4>asp: 99 turns in the array layer</h4>"), "{page}");
        assert!(page.contains("a&lt;b") && !page.contains("a<b"), "{page}");
        assert!(page.contains(">81 more<") && page.matches("<tr><td>").count() == 18, "{page}");
    }
}
