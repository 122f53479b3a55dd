//! What AMP keeps of a page, and of the sets that have been wished for and not yet seen in the cache.
//!
//! AMP has no table of streams: p and g of a stream stand on the last page of the set read for it last, and every page
//! knows the last page of its own set. So all of it is bounded by the cache and goes with its pages. A set is *planned*
//! when the policy wishes for it and *settled*, page by page, at the next event: by then the engine has taken what
//! memory and budgets allowed (and a controller above may have clipped the wish), and the last page that really came is
//! the last page of the set.
//!
//! ```text
//!   planned ── the engine takes what it may ──▶ settled: |first ......... tag ..g.. last| p, g
//!                                     nothing came: forgotten
//! ```
//!
//! Source: AMP (Gill and Bathen, FAST 2007), section "AMP Algorithm"; algorithms.md 4.1.

use crate::cache::{Cache, LineId};
use crate::units::{Block, Extent};
use alloc::vec::Vec;

/// Most sets planned by one access: its runs of missing pages and the sets that its hits trigger. Beyond, pages form sets
/// of their own, which costs a stream one restart.
const PLANNED_MAX: usize = 16;

/// Metadata of one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Last page of its set.
    pub last: u64,
    /// p, in pages; 0 where none was ever set. Only on the last page of a set.
    pub degree: u32,
    /// g, in pages. Only on the last page of a set.
    pub trigger: u32,
    /// Pages of the request on whose behalf the set was read (the paper's readSize). Only on the last page.
    pub request: u32,
    /// First page of its set.
    pub first: bool,
    /// A hit on it has the next set read.
    pub tag: bool,
    /// It has had its second chance.
    pub old: bool,
}

/// A set that was wished for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its pages, those of the request included.
    pub extent: Extent,
    /// The first of them that nobody has asked for; its end where there is none.
    pub ahead: u64,
    /// p of its last page.
    pub degree: u32,
    /// g of its last page.
    pub trigger: u32,
    /// Pages of the request.
    pub request: u32,
    /// Whether a page of it has the next set read.
    pub tagged: bool,
}

/// Where the newest p and g of a stream stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest {
    /// On this page.
    Page(LineId),
    /// In the plan with this place.
    Planned(usize),
}

/// Metadata of all pages in the cache.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    pages: Vec<Page>,
    planned: Vec<Planned>,
    /// The pages that came of the set being settled.
    came: Vec<LineId>,
}

impl Pages {
    /// Metadata of a page that is in the cache.
    #[must_use]
    pub fn get(&self, line: LineId) -> Page {
        self.pages.get(line.index()).copied().unwrap_or_default()
    }
    /// Changes the metadata of a page that is in the cache.
    ///
    /// # Panics
    /// If it was never [`Pages::admit`]ted.
    pub fn get_mut(&mut self, line: LineId) -> &mut Page {
        &mut self.pages[line.index()]
    }
    /// A page comes into the cache: a set of its own, until its set is settled.
    pub fn admit(&mut self, line: LineId, block: u64, lines: usize) {
        if self.pages.len() < lines {
            self.pages.resize(lines, Page::default());
        }
        self.pages[line.index()] = Page { last: block, first: true, ..Page::default() };
    }
    /// A page has left.
    pub fn forget(&mut self, line: LineId) {
        self.pages[line.index()] = Page::default();
    }
    /// The page of `block`, if it is in the cache.
    #[must_use]
    pub fn of(&self, block: u64, cache: &Cache) -> Option<Page> {
        cache.find(Block(block)).map(|line| self.get(line))
    }

    /// The last page of a set, if it is in the cache and still that: a page that left and came back may be in the middle
    /// of another set.
    fn end_of(&self, last: u64, cache: &Cache) -> Option<LineId> {
        cache.find(Block(last)).filter(|&line| self.get(line).last == last)
    }
    /// What stands on the last page of a set, if it is still that.
    #[must_use]
    pub fn end(&self, last: u64, cache: &Cache) -> Option<Page> {
        self.end_of(last, cache).map(|line| self.get(line))
    }

    /// Remembers a set that is being wished for.
    pub fn plan(&mut self, set: Planned) {
        if self.planned.len() < PLANNED_MAX {
            self.planned.push(set);
        }
    }
    /// Writes the metadata of the planned sets on the pages that came.
    pub fn settle(&mut self, cache: &Cache) {
        for index in 0..self.planned.len() {
            self.settle_one(self.planned[index], cache);
        }
        self.planned.clear();
    }

    fn settle_one(&mut self, set: Planned, cache: &Cache) {
        let start = set.extent.start.0;
        self.came.clear();
        self.came.extend(set.extent.iter().map_while(|block| cache.find(block)));
        if self.came.is_empty() {
            return;
        }
        let last = start + self.came.len() as u64 - 1;
        // A page that the request itself asks for cannot be hit ahead of need, so it is never the one that triggers.
        let tag = set.ahead.max(last.saturating_sub(u64::from(set.trigger)));
        for (block, line) in (start..).zip(&self.came) {
            let page = &mut self.pages[line.index()];
            let tagged = set.tagged && block == tag;
            *page = Page { last, first: block == start, tag: tagged, old: page.old, ..Page::default() };
            if block == last {
                page.degree = set.degree;
                page.trigger = set.trigger;
                page.request = set.request;
            }
        }
    }

    /// The paper's `lastInSequence`, for a page whose set ends at `last`: one set further if the next set is there, so
    /// that what is learned lands on the newest set of the stream. `None` when that page has left.
    ///
    /// The paper finds the end of the next set at `last` + p; here the next set's own first page says it, which is the
    /// same unless the end of the file or a controller has shortened that set.
    #[must_use]
    pub fn newest(&self, last: u64, cache: &Cache) -> Option<Newest> {
        let end = self.end_of(last, cache)?;
        let next = last + 1;
        if let Some(index) = self.planned.iter().position(|set| set.extent.start.0 == next) {
            return Some(Newest::Planned(index));
        }
        let further = self.of(next, cache).and_then(|page| self.end_of(page.last, cache));
        Some(Newest::Page(further.unwrap_or(end)))
    }

    /// Changes (p, g) where they stand; returns what they are now.
    pub fn adapt(&mut self, at: Newest, change: impl FnOnce(u32, u32) -> (u32, u32)) -> (u32, u32) {
        let (degree, trigger) = match at {
            Newest::Page(line) => {
                let page = &mut self.pages[line.index()];
                (&mut page.degree, &mut page.trigger)
            }
            Newest::Planned(index) => {
                let set = &mut self.planned[index];
                (&mut set.degree, &mut set.trigger)
            }
        };
        (*degree, *trigger) = change(*degree, *trigger);
        (*degree, *trigger)
    }
}
