//! What the page's script does with a pointer, tried on the page's own HTML: the script runs in a small engine, with as much of a
//! document around it as it touches (`assets/dom.js`).

use super::{SCRIPT, comparison};
use forerun_sim::report::{Comparison, Counts, Mark, RunReport, Sample, Served};
use rquickjs::{Context, Runtime};

const DOM: &str = include_str!("assets/dom.js");

/// A run of four seconds: `rate` MiB/s, half of its blocks from memory, its device at work a quarter of the time; in its last second
/// nothing but hits, and no work.
fn timed(scheme: &str, rate: u64) -> RunReport {
    let mut run = crate::sample::run("x", scheme, rate);
    run.timeline = (0..=4u64)
        .map(|k| Sample {
            at_ns: k * 1_000_000_000,
            bytes_delivered: k * (rate << 20),
            counts: Counts {
                blocks_read: k * 100,
                cache_hits: k * 50 + if k == 4 { 50 } else { 0 },
                ..Counts::default()
            },
            worked_ns: k.min(3) * 250_000_000,
        })
        .collect();
    run.marks = vec![Mark { at_ns: 10, offset: 4096, served: Served::Miss }];
    run
}

/// The page, loaded, with its script run; then what `steps` says, as text.
fn after(steps: &str) -> String {
    let runs = vec![timed("none", 10), timed("asp", 40)];
    let html = comparison(&Comparison::of(runs), &[]);
    let engine = Runtime::new().expect("an engine");
    let context = Context::full(&engine).expect("a context");
    context.with(|ctx| {
        ctx.globals().set("HTML", html).expect("set");
        let run = |text: &str| {
            ctx.eval::<(), _>(text).unwrap_or_else(|_| {
                let thrown = ctx.catch();
                panic!("{thrown:?} {:?}", thrown.as_exception().map(ToString::to_string))
            });
        };
        run(DOM);
        run(SCRIPT);
        run(HELP);
        run(&format!("globalThis.said = (() => {{ {steps} }})();"));
        ctx.globals().get("said").expect("text")
    })
}

/// Words for the steps below.
const HELP: &str = r#"
    globalThis.timed = document.querySelectorAll(".area").filter((area) => area.classes.has("timed"));
    globalThis.range = document.querySelectorAll("figure.range")[0];
    globalThis.drag = (area, from, to, end = "pointerup") => {
      area.fire("pointerdown", { clientX: from });
      area.fire("pointermove", { clientX: to });
      globalThis.bands = timed.map((one) => one.querySelector(".band"))
        .map((band) => band.hidden ? "hidden" : `${band.style.left} ${band.style.width}`).join("|");
      area.fire(end, { clientX: to });
    };
    globalThis.boxes = () => timed.map((area) => area.querySelector("svg").getAttribute("viewBox")).join("|");
    globalThis.rows = () => range.querySelectorAll("tr").map((row) => row.children.map((cell) => cell.textContent).join(","));
"#;

#[test]
fn a_range_that_is_dragged_out_in_one_picture_is_shown_by_all_with_what_each_scheme_did_in_it() {
    // Rates, hit ratios, devices, and where it was read; dragged out from the right to the left, as people do.
    let boxes = after("drag(timed[1], 500, 250); return boxes();");
    assert_eq!(boxes, ["250 0 250 400"; 4].join("|"));
    assert_eq!(after("drag(timed[0], 250, 500); return bands;"), ["25% 25%"; 4].join("|"));
    let ticks = after(
        "drag(timed[3], 250, 500); return timed[0].parentElement.querySelectorAll('.xticks span').map((t) => t.textContent).join(' ');",
    );
    assert_eq!(ticks, "1.00 s 1.25 s 1.50 s 1.75 s 2.00 s");
    let told = after(
        "drag(timed[0], 250, 500); return [String(range.hidden), range.querySelector('h3').textContent, ...rows()].join('\\n');",
    );
    assert_eq!(
        told,
        "false\nFrom 1.00 s to 2.00 s\nscheme,Throughput,Hit ratio,Devices\nnone,10.0 MiB/s,50.0%,25.0%\nasp,40.0 MiB/s,50.0%,25.0%"
    );
    // Half of the third second and half of the fourth, in which all is served from memory: in the mean over time.
    let half = after("drag(timed[2], 625, 875); return rows().join('\\n');");
    assert!(half.ends_with("asp,40.0 MiB/s,75.0%,12.5%"), "{half}");
}

#[test]
fn a_second_range_is_one_of_the_first_and_the_button_and_a_double_click_show_all_of_the_time() {
    let within = after("drag(timed[0], 500, 1000); drag(timed[1], 500, 1000); return boxes();");
    assert_eq!(within, ["750 0 250 400"; 4].join("|"));
    for back in ["range.querySelector('button').fire('click');", "timed[2].fire('dblclick');"] {
        let told = after(&format!(
            "const before = timed[0].parentElement.querySelectorAll('.xticks span')[4].textContent;
             drag(timed[0], 250, 500); {back}
             const now = timed[0].parentElement.querySelectorAll('.xticks span')[4].textContent;
             return [boxes(), String(range.hidden), String(before === now)].join(' ');"
        ));
        assert_eq!(told, ["0 0 1000 400"; 4].join("|") + " true true", "{back}");
    }
}

#[test]
fn a_click_and_a_drag_that_is_broken_off_change_nothing() {
    for steps in ["drag(timed[0], 250, 255);", "drag(timed[0], 250, 750, 'pointercancel');"] {
        let told = after(&format!(
            "{steps} const bands = timed.every((one) => one.querySelector('.band').hidden);
             return [boxes(), String(range.hidden), String(bands)].join(' ');"
        ));
        assert_eq!(told, ["0 0 1000 400"; 4].join("|") + " true true", "{steps}");
    }
}

#[test]
fn a_scheme_that_is_clicked_away_leaves_every_picture_and_what_the_pointer_says() {
    let told = after(
        "const chip = document.querySelectorAll('.chips button')[1]; chip.fire('click');
         const of = (run) => document.querySelectorAll(`[data-run=\"${run}\"]`);
         timed[0].fire('pointermove', { clientX: 500 });
         return [chip.getAttribute('aria-pressed'), String(of(1).every((part) => part.classes.has('off'))),
                 String(of(0).some((part) => part.classes.has('off'))), document.getElementById('tip').textContent].join(' ');",
    );
    assert_eq!(told, "false true false after 2.00 s\nnone: 10.0 MiB/s");
}
