//! The contract between a replacement policy and the one who owns the cache.
//!
//! A replacement policy answers one question: whom to evict. It knows no addresses, no bytes and no time, only
//! dense [`Key`]s that the owner hands out, so that a policy is a few vectors indexed by key: no hashing and,
//! once the vectors have grown, no allocation per access. The same implementation serves whole-trace runs
//! ([`count_misses`](super::count_misses), compiled for one policy) and the engine's cache (`dyn Replacement`).
//!
//! The life of a key, as the owner drives it:
//!
//! ```text
//!              admit(k, arrival)          insert(k)                     evict() = Evicted { k, remembered: false }
//!   (unknown) ──────────────────▶ admitted ───────▶ resident ─────────────────────────────────▶ (unknown)
//!                                    ▲                │  ▲ hit(k)
//!                  admit(k, arrival) │                │  └─ put_back(k): the eviction is taken back
//!                                    │                ▼
//!   (unknown) ◀────────────────── remembered ◀── evict() = Evicted { k, remembered: true }
//!         Evicted { dropped: Some(k) }, or remove(k)
//! ```
//!
//! **Reuse of keys.** A policy with ghosts (ARC, S3-FIFO) remembers keys after their eviction. An owner whose
//! keys are interned blocks never reuses one and has nothing to do. An owner whose keys are cache lines keeps
//! the descriptor of a key (its address, not its slot) as long as the policy remembers it: a key is free for
//! another address when `evict` returns it with `remembered == false`, when `evict` names it in `dropped`, or
//! after `remove`. At most [`Replacement::max_keys`] keys are held at any time, so descriptors are a fixed array.
//!
//! **Pinned victims.** The owner may refuse a victim with `put_back` and ask again. Refused keys stand aside
//! until the round ends (with the next `insert`, `settle` or a hit that must reorder), so that a round proposes
//! every resident key at most once and `evict` returns `None` when all have been refused. They come back at the
//! young end of the list they came from.
//!
//! **Prefetch.** A key inserted by a prefetch is *unread*: its first hit has the effect of the insertion of a
//! demanded key, not of a second reference (or a sequential scan read ahead would flood the lists of proven
//! blocks), it teaches the ghosts nothing, and evicted unread it leaves no ghost (algorithms.md, section 8).

pub use super::list::Key;
use super::list::Lists;
use core::fmt::Debug;

/// Why a key comes into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// A reader wants it now: a miss.
    Demand,
    /// Nobody has asked for it yet.
    Prefetch,
}

/// What an eviction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The key that is no longer resident.
    pub key: Key,
    /// Whether the policy keeps it as a ghost; the owner must then keep its address too.
    pub remembered: bool,
    /// A ghost that was forgotten to make room; its key may be used for another address. Never the key above.
    pub dropped: Option<Key>,
}

/// A replacement policy over dense keys. The module's page has the contract; breaking it is a bug of the caller
/// and asserts in debug builds.
pub trait Replacement: Debug + Send {
    /// The lists that hold its keys. What every policy does with them alike stands below.
    fn lists(&self) -> &Lists;
    /// The same, to change.
    fn lists_mut(&mut self) -> &mut Lists;
    /// How many resident keys it was built for, in entries. Sizes of ghosts and segments follow from it.
    #[inline]
    fn capacity(&self) -> usize {
        self.lists().capacity()
    }
    /// How many keys are resident now (those set aside by `put_back` included).
    #[inline]
    fn len(&self) -> usize {
        self.lists().resident()
    }
    /// Whether no key is resident.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Most keys that may be resident, admitted or remembered at once when one key is admitted at a time.
    fn max_keys(&self) -> usize {
        self.capacity() + 1
    }
    /// Whether `key` is resident. False for keys never seen.
    #[inline]
    fn is_resident(&self, key: Key) -> bool {
        self.lists().is_resident(key)
    }
    /// Whether `key` is a ghost: not resident, but its return would be noticed.
    fn is_remembered(&self, key: Key) -> bool {
        let _ = key;
        false
    }
    /// Makes room for the keys `0..keys`, so that no later call with such a key allocates.
    fn reserve(&mut self, keys: usize) {
        self.lists_mut().grow(keys);
    }
    /// `key` is not resident and is about to be inserted. Called once for each insertion, before `evict`: here
    /// ghosts teach. Follow with `insert`, or with `remove` where the insertion is given up.
    fn admit(&mut self, key: Key, arrival: Arrival);
    /// Chooses a victim and removes it from residency; `incoming` is the admitted key that needs the room, if the
    /// room is for a key. `None`: nothing is resident that was not refused in this round.
    fn evict(&mut self, incoming: Option<Key>) -> Option<Evicted>;
    /// Refuses the victim that the last `evict` returned: it is resident again.
    fn put_back(&mut self, key: Key) {
        self.lists_mut().set_aside(key);
    }
    /// Ends a round of refusals without an insertion.
    fn settle(&mut self) {
        self.lists_mut().settle();
    }
    /// `key`, admitted before, is resident from now on.
    fn insert(&mut self, key: Key);
    /// A reader used the resident `key`.
    fn hit(&mut self, key: Key);
    /// Forgets `key` altogether, in whatever state it is: it left for another reason than eviction.
    fn remove(&mut self, key: Key);
}
