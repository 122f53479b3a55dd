//! What may go wrong in one run, drawn from its seed.

use super::draw::Draw;

/// What members do to those who trust them. "One in" is of so many; 0 is never.
#[derive(Clone, Debug, Default)]
pub(super) struct Weather {
    /// One in so many reads fails, whatever it reads.
    pub(super) read_errors: u64,
    /// One in so many writes fails, of which any sectors may have been written.
    pub(super) write_errors: u64,
    /// One in so many reads and writes moves a part only.
    pub(super) short: u64,
    /// One in so many syncs fails, and with it any of what it should have made durable.
    pub(super) sync_errors: u64,
    /// Blocks go bad: reading them fails, until they are written.
    pub(super) bad_blocks: bool,
    /// Members stop answering, for seconds or for ever.
    pub(super) hangs: bool,
    /// Syncs are acknowledged and nothing is made durable.
    pub(super) lies: bool,
    /// One in so many writes lands elsewhere.
    pub(super) misdirects: u64,
    /// Members have no way to make anything durable, and say so.
    pub(super) no_flush: bool,
    /// Members are of other machines.
    pub(super) far: bool,
    /// Reads, writes and syncs take long: each of them by itself.
    pub(super) slow: [bool; 3],
    /// Writes are held back before they come to the member: a block that was written may be bad there still.
    pub(super) journalled: bool,
    /// One in so many steps the cache is emptied, so that what it holds is read again.
    pub(super) emptied: u64,
    /// One in so many steps something rare happens.
    pub(super) rare: u64,
}

/// Kinds of weather, so that what it takes several things to break meets them often enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing fails: only orders, caches, cuts and kills.
    Calm,
    /// Syncs fail, processes are killed.
    Syncs,
    /// Blocks cannot be read.
    Media,
    /// Writes fail or are cut short.
    Writes,
    /// Members do not answer.
    Silence,
    /// Anything together.
    Mixed,
    /// Members that promise nothing, or lie.
    Unfit,
}

/// In which order and how often they come, by seed: so few runs have seen all of them.
const KINDS: &[Kind] = &[
    Kind::Syncs,
    Kind::Media,
    Kind::Silence,
    Kind::Calm,
    Kind::Syncs,
    Kind::Writes,
    Kind::Syncs,
    Kind::Media,
    Kind::Silence,
    Kind::Unfit,
    Kind::Syncs,
    Kind::Writes,
    Kind::Calm,
    Kind::Syncs,
    Kind::Media,
    Kind::Silence,
    Kind::Writes,
    Kind::Mixed,
];

impl Weather {
    pub(super) fn of(seed: u64, draw: &mut Draw) -> Self {
        let kind = KINDS[(seed % KINDS.len() as u64) as usize];
        let mixed = kind == Kind::Mixed;
        let mut sometimes = |so: bool, rates: &[u64]| {
            let rate = draw.pick(rates);
            if so || mixed && draw.one_in(3) { rate } else { 0 }
        };
        let mut weather = Self {
            read_errors: sometimes(kind == Kind::Media, &[0, 5, 30]),
            write_errors: sometimes(kind == Kind::Writes, &[0, 4, 20]),
            short: sometimes(kind == Kind::Writes, &[3, 10]),
            sync_errors: sometimes(kind == Kind::Syncs, &[2, 3]),
            bad_blocks: sometimes(kind == Kind::Media, &[1]) > 0,
            hangs: sometimes(kind == Kind::Silence, &[1]) > 0,
            lies: false,
            misdirects: 0,
            no_flush: kind != Kind::Syncs && draw.one_in(4),
            far: kind != Kind::Syncs && draw.one_in(6),
            slow: [
                kind == Kind::Calm || draw.one_in(2),
                kind != Kind::Calm && draw.one_in(if kind == Kind::Syncs { 2 } else { 4 }),
                draw.one_in(2),
            ],
            journalled: false,
            rare: draw.pick(&[10, 20, 50]),
            emptied: if matches!(kind, Kind::Calm | Kind::Media) { 12 } else { 50 },
        };
        if kind == Kind::Unfit {
            match draw.below(3) {
                0 => weather.lies = true,
                1 => weather.misdirects = 10,
                _ => weather.no_flush = true,
            }
        }
        weather
    }

    /// The same over a journal, which wants a member of this machine that keeps what it says it has kept.
    pub(super) const fn with_journal(self) -> Self {
        Self { journalled: true, lies: false, misdirects: 0, no_flush: false, far: false, ..self }
    }

    /// The same over an array with redundancy: what its members do to it is drawn for them one by one, and those above see nothing of it.
    pub(super) fn with_array(self) -> Self {
        let Self { hangs, slow, rare, emptied, .. } = self;
        Self { journalled: true, hangs, slow, rare, emptied, ..Self::default() }
    }

    /// Whether no member fails in any way.
    pub(super) const fn is_calm(&self) -> bool {
        let rates = [self.read_errors, self.write_errors, self.short, self.sync_errors, self.misdirects];
        let some = rates[0] + rates[1] + rates[2] + rates[3] + rates[4] > 0;
        !some && !self.bad_blocks && !self.hangs && !self.lies
    }

    /// Whether syncs matter most in it.
    pub(super) const fn is_of_syncs(&self) -> bool {
        self.sync_errors > 0
    }

    /// Nothing fails any more.
    pub(super) fn clear_up(&mut self) {
        let Self { no_flush, far, journalled, slow, rare, emptied, .. } = *self;
        *self = Self { no_flush, far, journalled, slow, rare, emptied, ..Self::default() };
    }
}
