//! Fig. 7, Dbench: many clients of a file server, the figure that is about culling (section 3.3).
//!
//! The stand-in draws sessions in the proportions of dbench's own load file (`workload/dbench.rs`). Each client has
//! 1,000 sessions where the paper ran ten minutes. Where the paper contradicts itself (ASP over SEQP128 is 2 times
//! for SEQP32 in section 3.3 and 2.3 times for SEQP128 in section 4) each number is a row.

use super::fig6::total_served;
use super::programs::DUMB_DRIVES;
use crate::Paper;
use crate::claim::{Claim, THROUGHPUT, Test, Verdict};
use crate::facts::gauge;
use crate::setup::{Scale, Setup};
use forerun_sim::report::RunReport;

/// Clients on the x axis.
const CLIENTS: [u64; 4] = [16, 32, 64, 128];
/// Sessions of each client.
const SESSIONS: u64 = 1_000;
/// All schemes of the figure.
const SCHEMES: [&str; 10] = [
    "none",
    "strip",
    "asp",
    "asp(ghosts=off)",
    "asp+msp",
    "seqp:32KiB",
    "seqp:128KiB",
    "seqp:512KiB",
    "asp+seqp:128KiB",
    "asp+msp+seqp:128KiB",
];
/// Why SEQP may help here where the paper sees it do harm.
const WHOLE: &str = "the stand-in's files lie whole and end to end, so SEQP's windows rarely cross strips and cost no second disk";
/// What takes that away.
const PIECES: &str = "files in scattered pieces of 64 KiB";
/// The other reason that may be.
const BUFFERS: &str = "the drives' own read-ahead serves part of what a scheme could gain";
const HARDWARE: &str =
    "a hardware controller (Intel SRCU42X): its firmware is not known, so no model of it is built";

/// All rows of Fig. 7.
pub(super) fn claims(scale: &Scale) -> Vec<Claim> {
    let at = |scheme: &str, clients: u64| {
        let sessions = scale.of(SESSIONS);
        scale.setup(&format!("standin-dbench:clients={clients},sessions={sessions}"), scheme)
    };
    let mut claims = numbers(&at);
    claims.extend(orders(&at));
    for clients in CLIENTS {
        let x = format!("{clients} clients");
        for scheme in SCHEMES {
            claims.push(Claim::point(
                "7",
                "MB/s",
                scheme,
                (clients as f64, &x),
                at(scheme, clients),
                THROUGHPUT,
            ));
        }
    }
    claims
}

fn numbers(at: &dyn Fn(&str, u64) -> Setup) -> Vec<Claim> {
    let number = |case: &str, paper: f64, left: &str, right: &str, clients: u64| {
        Claim::number("7", case, paper, vec![at(left, clients)], vec![at(right, clients)], THROUGHPUT)
            .ablate("asp without culling", at("asp(cull=off)", clients))
            .ablate("asp without the cost test", at("asp(cost=off)", clients))
            .ablate("asp without ghosts", at("asp(ghosts=off)", clients))
            .suppose(WHOLE, PIECES, Setup::in_pieces)
            .suppose(BUFFERS, DUMB_DRIVES, |setup| setup.readahead(false))
    };
    vec![
        number("asp over strip at 128 clients (+20%)", 1.20, "asp", "strip", 128),
        number("asp+msp over strip at 128 clients (+20%)", 1.20, "asp+msp", "strip", 128),
        number("asp over seqp32 at 128 clients (section 3.3: 2 times)", 2.0, "asp", "seqp:32KiB", 128),
        number("asp over seqp128 at 128 clients (section 4: 2.3 times)", 2.3, "asp", "seqp:128KiB", 128),
        number("asp+seqp128 over seqp128 at 128 clients (+67%)", 1.67, "asp+seqp:128KiB", "seqp:128KiB", 128),
        number("seqp32 over seqp512 at 64 clients (+4%)", 1.04, "seqp:32KiB", "seqp:512KiB", 64),
        number("seqp32 over seqp512 at 128 clients (+15%)", 1.15, "seqp:32KiB", "seqp:512KiB", 128),
        number("asp over asp without ghosts at 128 clients (14%)", 1.14, "asp", "asp(ghosts=off)", 128),
        Claim::absent("7", "asp over hardware RAID at 64 clients (11 times)", Paper::Number(11.0), HARDWARE),
        Claim::absent("7", "asp over hardware RAID at 128 clients (7.6 times)", Paper::Number(7.6), HARDWARE),
    ]
}

fn orders(at: &dyn Fn(&str, u64) -> Setup) -> Vec<Claim> {
    let asp = || vec![at("asp", 128)];
    let others = SCHEMES.iter().filter(|s| **s != "asp" && **s != "asp+msp").map(|s| at(s, 128)).collect();
    let order = |case: &str, says: &str, left: &str, right: &str| {
        Claim::order("7", case, says, vec![at(left, 128)], vec![at(right, 128)], THROUGHPUT)
            .suppose(WHOLE, PIECES, Setup::in_pieces)
            .suppose(BUFFERS, DUMB_DRIVES, |setup| setup.readahead(false))
    };
    let highest = "asp over the best of the others but asp+msp at 128 clients";
    let refused = "misses of asp that were refused a strip at 128 clients, share";
    let sum = "hit ratio + late hits of asp >= max(strip, none) - 1 point at 128 clients: points above max";
    let ghosts = "ghosts worth having: asp over asp without ghosts at 128 clients";
    let three = vec![at("asp", 128), at("strip", 128), at("none", 128)];
    vec![
        Claim::order("7", highest, "ASP and ASP+MSP rank the highest", asp(), others, THROUGHPUT)
            .ablate("asp without the cost test", at("asp(cost=off)", 128))
            .ablate("asp without culling", at("asp(cull=off)", 128))
            .suppose(WHOLE, PIECES, Setup::in_pieces)
            .suppose(BUFFERS, DUMB_DRIVES, |setup| setup.readahead(false)),
        Claim::new("7", refused, asp(), Test::Judge(always_cheaper))
            .says("C_sp was always less than C_n")
            .ablate("asp without the cost test", at("asp(cost=off)", 128)),
        order(
            "asp over asp+seqp128 at 128 clients",
            "adding SEQP to ASP is inferior",
            "asp",
            "asp+seqp:128KiB",
        ),
        order("asp over asp+msp at 128 clients", "adding MSP slightly degrades ASP", "asp", "asp+msp"),
        order("none over seqp128 at 128 clients", "SEQP degrades throughput", "none", "seqp:128KiB"),
        Claim::new("7", sum, three, Test::Judge(total_served))
            .says("the sum of hit rates is equal to or greater than that of either (section 4)"),
        Claim::expected("7", ghosts, 1.0, asp(), vec![at("asp(ghosts=off)", 128)], THROUGHPUT)
            .ablate("neither ghosts nor culling", at("asp(ghosts=off,cull=off)", 128)),
    ]
}

/// C_sp < C_n throughout: nothing was ever refused.
fn always_cheaper(runs: &[&RunReport]) -> Verdict {
    let read = |name| gauge(runs[0], name).unwrap_or(0.0);
    let (strips, refused) = (read("asp_strip_reads"), read("asp_strip_reads_refused"));
    let share = if strips + refused > 0.0 { refused / (strips + refused) } else { 0.0 };
    let said = format!(
        "at the end C_n {:.1} s, C_sp {:.1} s; {refused:.0} of {:.0} misses refused",
        read("asp_cost_none_ns") / 1e9,
        read("asp_cost_strip_ns") / 1e9,
        strips + refused
    );
    Verdict { ours: Some(share), holds: Some(refused < 0.5), said }
}
