//! Upstream and downstream: two LRU lists with bottom segments whose membership is known without a walk.
//!
//! ```text
//!   U  MRU ......... |== U_b: bottom n_b ==| LRU      D  MRU ......... |== G_b: bottom n_b ==| LRU
//!                       |= G_b reaches up here while D is shorter than n_b =|
//! ```
//!
//! The global list is U followed by D, so its bottom G_b overlaps the bottom of U exactly when D holds fewer than n_b
//! strips (ASP paper section 2.3). Each segment keeps the place where it begins; entering and leaving moves that place
//! by one, and two sums follow along: the occupied blocks of U_b and the cached blocks of G_b (eq. 6).

use crate::cache::LineId;
use alloc::vec::Vec;

const NIL: u32 = u32::MAX;

/// Which list a strip is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// On none: unknown, or a ghost.
    #[default]
    Out,
    /// Upstream.
    Up,
    /// Downstream.
    Down,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    younger: u32,
    older: u32,
    place: Tier,
    /// Member of U_b.
    in_ub: bool,
    /// Member of G_b.
    in_gb: bool,
    cached: u32,
    unread: u32,
}

const BLANK: Node =
    Node { younger: NIL, older: NIL, place: Tier::Out, in_ub: false, in_gb: false, cached: 0, unread: 0 };

/// A bottom segment of one list.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// How many members it should have.
    target: u64,
    size: u64,
    /// Its youngest member.
    top: u32,
    /// Counts for G_b and not for U_b.
    global: bool,
}

#[derive(Clone, Debug)]
struct List {
    youngest: u32,
    oldest: u32,
    len: u64,
    segments: Vec<Segment>,
}

/// The two lists and their sums.
#[derive(Clone, Debug)]
pub struct Tiers {
    nodes: Vec<Node>,
    up: List,
    down: List,
    bottom: u64,
    /// Blocks that hold memory in U_b.
    occupied_ub: u64,
    /// Blocks of G_b that were requested.
    cached_gb: u64,
}

impl Tiers {
    /// Empty lists with bottom segments of `bottom` strips.
    #[must_use]
    pub fn new(bottom: u64) -> Self {
        let segment = |target, global| Segment { target, size: 0, top: NIL, global };
        let list = |segments| List { youngest: NIL, oldest: NIL, len: 0, segments };
        Self {
            nodes: Vec::new(),
            up: list(Vec::from([segment(bottom, false), segment(bottom, true)])),
            down: list(Vec::from([segment(bottom, true)])),
            bottom,
            occupied_ub: 0,
            cached_gb: 0,
        }
    }
    /// Size of the bottom segments, n_b.
    #[must_use]
    pub const fn bottom(&self) -> u64 {
        self.bottom
    }
    /// Makes room for lines up to `lines`.
    #[inline(never)]
    pub fn reserve(&mut self, lines: usize) {
        if self.nodes.len() < lines {
            self.nodes.resize(lines, BLANK);
        }
    }
    /// Which list `line` is on.
    #[must_use]
    pub fn place(&self, line: LineId) -> Tier {
        self.nodes.get(line.index()).map_or(Tier::Out, |n| n.place)
    }
    /// Whether `line` is in U_b.
    #[must_use]
    pub fn in_ub(&self, line: LineId) -> bool {
        self.nodes.get(line.index()).is_some_and(|n| n.in_ub)
    }
    /// Whether `line` is in G_b.
    #[must_use]
    pub fn in_gb(&self, line: LineId) -> bool {
        self.nodes.get(line.index()).is_some_and(|n| n.in_gb)
    }
    /// Strips in U.
    #[must_use]
    pub const fn up_len(&self) -> u64 {
        self.up.len
    }
    /// Strips in D.
    #[must_use]
    pub const fn down_len(&self) -> u64 {
        self.down.len
    }
    /// The strips of a list, youngest first, for tests that recount.
    pub fn strips(&self, place: Tier) -> impl Iterator<Item = LineId> + '_ {
        let first = match place {
            Tier::Out => NIL,
            Tier::Up => self.up.youngest,
            Tier::Down => self.down.youngest,
        };
        let next = |&at: &u32| Some(self.nodes[at as usize].older).filter(|&older| older != NIL);
        core::iter::successors(Some(first).filter(|&at| at != NIL), next).map(LineId)
    }
    /// The least recently used strip of U.
    #[must_use]
    pub fn up_oldest(&self) -> Option<LineId> {
        (self.up.oldest != NIL).then_some(LineId(self.up.oldest))
    }
    /// The least recently used strip of all: of D, or of U when D is empty.
    #[must_use]
    pub fn oldest(&self) -> Option<LineId> {
        let oldest = if self.down.oldest == NIL { self.up.oldest } else { self.down.oldest };
        (oldest != NIL).then_some(LineId(oldest))
    }
    /// Blocks with memory in U_b, and cached blocks in G_b: numerator and denominator of α (eq. 6).
    #[must_use]
    pub const fn alpha_counts(&self) -> (u64, u64) {
        (self.occupied_ub, self.cached_gb)
    }

    /// The counts of a strip changed.
    #[inline]
    pub fn count(&mut self, line: LineId, cached: i32, unread: i32) {
        if self.nodes.len() <= line.index() {
            self.reserve(line.index() + 1);
        }
        let node = &mut self.nodes[line.index()];
        node.cached = node.cached.wrapping_add_signed(cached);
        node.unread = node.unread.wrapping_add_signed(unread);
        if node.in_ub {
            self.occupied_ub = self.occupied_ub.wrapping_add_signed(i64::from(cached + unread));
        }
        if node.in_gb {
            self.cached_gb = self.cached_gb.wrapping_add_signed(i64::from(cached));
        }
    }

    /// Moves `line` to the young end of the list that it is on, if it is on one.
    #[inline]
    pub fn renew(&mut self, line: LineId) {
        let Some(node) = self.nodes.get(line.index()) else { return };
        if node.place == Tier::Out || node.younger == NIL {
            return;
        }
        if node.in_ub || node.in_gb {
            let place = node.place;
            self.to_mru(line, place);
        } else {
            self.refresh(line.0);
        }
    }

    /// Puts `line` at the young end of a list, wherever it was.
    pub fn to_mru(&mut self, line: LineId, place: Tier) {
        if self.nodes.len() <= line.index() {
            self.reserve(line.index() + 1);
        }
        let node = self.nodes[line.index()];
        if node.place == place {
            if node.younger == NIL {
                return; // it is the youngest
            }
            if !node.in_ub && !node.in_gb {
                self.refresh(line.0);
                return;
            }
        }
        self.take_out(line);
        let at = line.0;
        let list = if place == Tier::Up { &mut self.up } else { &mut self.down };
        let youngest = list.youngest;
        self.nodes[at as usize].place = place;
        self.nodes[at as usize].older = youngest;
        self.nodes[at as usize].younger = NIL;
        if youngest == NIL {
            list.oldest = at;
        } else {
            self.nodes[youngest as usize].younger = at;
        }
        list.youngest = at;
        list.len += 1;
        self.settle(place);
    }

    /// Moves a strip that is neither the youngest nor in a segment to the young end of its list: no segment changes.
    fn refresh(&mut self, at: u32) {
        let node = self.nodes[at as usize];
        let list = if node.place == Tier::Up { &mut self.up } else { &mut self.down };
        self.nodes[node.younger as usize].older = node.older;
        if node.older == NIL {
            list.oldest = node.younger;
        } else {
            self.nodes[node.older as usize].younger = node.younger;
        }
        let youngest = core::mem::replace(&mut list.youngest, at);
        self.nodes[youngest as usize].younger = at;
        self.nodes[at as usize].older = youngest;
        self.nodes[at as usize].younger = NIL;
    }

    /// Takes `line` off its list.
    pub fn take_out(&mut self, line: LineId) {
        let at = line.0;
        let node = self.nodes[line.index()];
        let list = match node.place {
            Tier::Out => return,
            Tier::Up => &mut self.up,
            Tier::Down => &mut self.down,
        };
        for segment in &mut list.segments {
            let member = if segment.global { node.in_gb } else { node.in_ub };
            if member {
                segment.size -= 1;
                if segment.top == at {
                    segment.top = node.older;
                }
            }
        }
        if node.younger == NIL {
            list.youngest = node.older;
        } else {
            self.nodes[node.younger as usize].older = node.older;
        }
        if node.older == NIL {
            list.oldest = node.younger;
        } else {
            self.nodes[node.older as usize].younger = node.younger;
        }
        list.len -= 1;
        self.leave_segment(at, true);
        self.leave_segment(at, false);
        let blank = Node { cached: node.cached, unread: node.unread, ..BLANK };
        self.nodes[line.index()] = blank;
        self.settle(node.place);
    }

    fn enter_segment(&mut self, at: u32, global: bool) {
        let node = &mut self.nodes[at as usize];
        if global {
            node.in_gb = true;
            self.cached_gb += u64::from(node.cached);
        } else {
            node.in_ub = true;
            self.occupied_ub += u64::from(node.cached + node.unread);
        }
    }
    fn leave_segment(&mut self, at: u32, global: bool) {
        let node = &mut self.nodes[at as usize];
        if global && core::mem::take(&mut node.in_gb) {
            self.cached_gb -= u64::from(node.cached);
        }
        if !global && core::mem::take(&mut node.in_ub) {
            self.occupied_ub -= u64::from(node.cached + node.unread);
        }
    }

    /// Lets the segments of a list grow or shrink to their targets; D's length sets how far G_b reaches into U.
    fn settle(&mut self, place: Tier) {
        if place == Tier::Down {
            self.settle_segment(Tier::Down, 0);
            self.up.segments[1].target = self.bottom.saturating_sub(self.down.len);
            self.settle_segment(Tier::Up, 1);
        } else {
            self.settle_segment(Tier::Up, 0);
            self.settle_segment(Tier::Up, 1);
        }
    }

    fn settle_segment(&mut self, place: Tier, index: usize) {
        loop {
            let list = if place == Tier::Up { &mut self.up } else { &mut self.down };
            let oldest = list.oldest;
            let segment = &mut list.segments[index];
            if segment.size < segment.target {
                let next = if segment.size == 0 { oldest } else { self.nodes[segment.top as usize].younger };
                if next == NIL {
                    return;
                }
                segment.size += 1;
                segment.top = next;
                let global = segment.global;
                self.enter_segment(next, global);
            } else if segment.size > segment.target {
                let top = segment.top;
                segment.size -= 1;
                segment.top = self.nodes[top as usize].older;
                let global = segment.global;
                self.leave_segment(top, global);
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    /// The same lists kept as plain queues, counted anew each time.
    #[derive(Default)]
    struct Naive {
        up: VecDeque<u32>,
        down: VecDeque<u32>,
        counts: Vec<(u32, u32)>,
    }

    impl Naive {
        fn bottom(&self, n: usize) -> (Vec<u32>, Vec<u32>) {
            let global: Vec<u32> = self.up.iter().chain(&self.down).rev().take(n).copied().collect();
            (self.up.iter().rev().take(n).copied().collect(), global)
        }
    }

    proptest! {
        #[test]
        fn segments_and_sums_equal_a_recount(
            steps in proptest::collection::vec((0u32..24, 0u8..4, 0u32..5), 1..300),
            bottom in 1u64..8,
        ) {
            let mut tiers = Tiers::new(bottom);
            let mut naive = Naive { counts: alloc::vec![(0, 0); 24], ..Naive::default() };
            tiers.reserve(24);
            for (line, action, amount) in steps {
                let gone = |q: &mut VecDeque<u32>| q.retain(|&l| l != line);
                match action {
                    0 => { gone(&mut naive.up); gone(&mut naive.down); naive.up.push_front(line); tiers.to_mru(LineId(line), Tier::Up); }
                    1 => { gone(&mut naive.up); gone(&mut naive.down); naive.down.push_front(line); tiers.to_mru(LineId(line), Tier::Down); }
                    2 => { gone(&mut naive.up); gone(&mut naive.down); tiers.take_out(LineId(line)); }
                    _ => {
                        let (cached, unread) = naive.counts[line as usize];
                        tiers.count(LineId(line), amount as i32 - cached as i32, 3 - unread as i32);
                        naive.counts[line as usize] = (amount, 3);
                    }
                }
                let (ub, gb) = naive.bottom(bottom as usize);
                for l in 0..24 {
                    prop_assert_eq!(tiers.in_ub(LineId(l)), ub.contains(&l));
                    prop_assert_eq!(tiers.in_gb(LineId(l)), gb.contains(&l));
                }
                let occupied: u32 = ub.iter().map(|&l| naive.counts[l as usize].0 + naive.counts[l as usize].1).sum();
                let cached: u32 = gb.iter().map(|&l| naive.counts[l as usize].0).sum();
                prop_assert_eq!(tiers.alpha_counts(), (u64::from(occupied), u64::from(cached)));
                prop_assert_eq!((tiers.up_len(), tiers.down_len()), (naive.up.len() as u64, naive.down.len() as u64));
                prop_assert_eq!(tiers.oldest().map(|l| l.0), naive.down.back().or(naive.up.back()).copied());
            }
        }
    }
}
