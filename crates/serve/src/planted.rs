//! Bugs planted on purpose, to see that the simulator of faults and crashes (`crash`) finds them. Only with the feature
//! `crash`, which nothing but the simulator's own tests and programs turn on; without it every question is answered "no" at
//! compile time, and nothing of this is in a product.

macro_rules! bugs {
    ($($name:ident: $what:literal,)*; rare: $($rare:ident: $seldom:literal,)*;
     back: $($back:ident: $behind:literal,)*; back, rare: $($deep:ident: $deeper:literal,)*;
     array: $($array:ident: $of_array:literal,)*; array, rare: $($lone:ident: $of_lone:literal,)*) => {
        /// What can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Bug {
            $(#[doc = $what] $name,)*
            $(#[doc = $seldom] $rare,)*
            $(#[doc = $behind] $back,)*
            $(#[doc = $deeper] $deep,)*
            $(#[doc = $of_array] $array,)*
            $(#[doc = $of_lone] $lone,)*
        }

        impl Bug {
            /// Those that are found soon, each with what is wrong.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, $what),)*];
            /// Those that take a meeting of several things, and many points.
            pub const RARE: &[(Self, &str)] = &[$((Self::$rare, $seldom),)*];
            /// Those of write-back, which its own simulator finds.
            pub const BACK: &[(Self, &str)] = &[$((Self::$back, $behind),)*];
            /// Those of write-back that take a meeting of several things.
            pub const BACK_RARE: &[(Self, &str)] = &[$((Self::$deep, $deeper),)*];
            /// Those of arrays with redundancy.
            pub const ARRAY: &[(Self, &str)] = &[$((Self::$array, $of_array),)*];
            /// Those of arrays that take a meeting of several things, and that no test waits for.
            pub const ARRAY_RARE: &[(Self, &str)] = &[$((Self::$lone, $of_lone),)*];
        }
    };
}

bugs! {
    FlushIsNothing: "A flush is answered without a sync of the members.",
    FlushOneMember: "Only the first member is synced.",
    FlushWithoutMeans: "A member that can make nothing durable is served as if it could.",
    FuaIsIgnored: "A durable write is answered when it is on the member, without a sync.",
    FuaJoinsRunning: "A durable write is answered with a sync that began before it was on the member.",
    FailedSyncIsForgotten: "After a sync that failed the next one is believed.",
    FailedSyncIsGood: "A sync that failed is answered as one that did not.",
    CoveredIsForgotten: "What was written before a sync began is not at risk when it fails.",
    FailedWriteIsGood: "A write that a member refused is answered as done.",
    ShortWriteIsWhole: "A write of which a part reached the member is answered as done.",
    WriteAnsweredEarly: "A write is answered when the engine has it, before it is on the member.",
    EdgesUnread: "A write of a part of a block leaves the rest of the block to chance.",
    TailOneSectorShort: "The rest of a last block is taken from one sector too late.",
    OverlapsIgnored: "Writes of parts of one block do not wait for each other.",
    NextBeginsEarly: "A write that waits for another begins when that one begins.",
    IntakeGivenBackEarly: "The memory of a write is given to the next before its bytes were copied.",
    PieceMisplaced: "A block that is read alone lands where its neighbour belongs.",
    HolesUntold: "A block that could not be read counts as read.",
    PrefetchFailsNeighbours: "A read that a prefetch had widened fails as a whole for all who wait for a part of it.",
    NoPatience: "A client waits for ever for a member that never answers.",
    GivenUpIsGood: "A flush that was given up is answered as done.",
    LateAnswerIsTaken: "What comes too late for one request is taken for the next of its place.",
    GivenUpTwice: "A write that was given up is answered again when it ends.",
    LastSectorUnawaited: "A write is begun when all but its last sector is here.",
    PartsOutOfOrder: "The parts of a long read are sent as they come.",
    PartsAlike: "Each part of a long write brings the bytes of the first.",
    SentTwice: "What was sent of an answer is sent again with the rest.",
    ZeroesAreNothing: "Zeroes are answered as written, and nothing is.",
    ZeroesTakeTheRest: "Zeroes that end within a block take the rest of it along.",
    ZeroesUnlooked: "A command to where somebody writes zeroes is made a hole, whatever else it carries.",
    ReleasePinned: "The memory of an answer is used again before its client has taken it.",
    ; rare:
    HolesAstray: "Holes are told of one block before where they are.",
    FlushJoinsRunning: "A flush that comes while a sync is under way is answered with it.",
    FirstSyncIsHarmless: "A first sync that fails has nothing to lose: what was written before the process began is forgotten.",
    BadIsForgotten: "A block that failed is not remembered: whoever reads beside it waits for it each time.",
    KeepStale: "A block that a write has overtaken on its way in enters the cache all the same.",
    BadIsForEver: "A block that was written stays bad.",
    InFlightIsForgotten: "What was under way when a sync failed is not at risk.",
    FreshIsForgotten: "A sync that ends well counts what was written while it ran as durable.",
    ; back:
    AnsweredBeforeJournal: "A write is answered before its record is on the journal.",
    FlushPastJournal: "A flush is answered without a sync of the journal.",
    ReadPastJournal: "A read is answered by the device alone, whatever the journal holds.",
    HomeUnread: "A write home that failed counts as one that did not.",
    TailBeforeDevice: "The tail passes records before the device was synced.",
    SuperInPlace: "Superblocks are written over the newest one.",
    ThroughOverRecord: "A write passes by the journal while that holds an older one of its blocks.",
    ThroughUnsynced: "A flush does not sync the device behind writes that passed by the journal.",
    PayloadUnchecked: "A record counts although its payload is torn.",
    GenerationUnchecked: "Records of an earlier start count.",
    ReplayAnyNumber: "A record counts although it is not the one that follows.",
    ReplayOldest: "Of several records of a block the oldest is brought home.",
    ReplayUnsynced: "After a replay the journal begins anew before the device was synced.",
    ; back, rare:
    StripeTwice: "A stripe of which a write home has failed goes again while another write of it is under way.",
    HomeBeforeJournal: "Blocks go home that the journal may still lose.",
    TailBeforeJournal: "The tail passes records before the journal keeps those that replace them.",
    RoomBeforeSuper: "Room is used again before the superblock that gives it free was synced.",
    ; array:
    StripesUnjournalled: "Data and parity of a stripe go to the members at once, without a journal.",
    RecordsApart: "Data and parity of a stripe stand in records of their own.",
    StripesUnreplayed: "What the journal holds is not brought home by a start.",
    ParityUnwritten: "Data is written without its parity.",
    OutUnsaid: "A member is put out before the others say so.",
    RebuildUnlocked: "A stripe of which a member is rebuilt is not held against writes.",
    RebuiltUnsynced: "Superblocks say how far a rebuild is before the journal keeps what it wrote.",
    RebuildUnwritten: "Writes to stripes that are rebuilt do not go to the new member.",
    RebuildNotEnded: "A member whose rebuild has failed is out before superblocks say that it is not being rebuilt.",
    HollowUnlooked: "What a TRIM changes of a stripe becomes a hole, parity that is not zero too.",
    HeldUnasked: "What only the journal has of an array is not looked for where its members are asked.",
    StripesAtOnce: "What reads other blocks of a stripe does not wait for what changes it.",
    ; array, rare:
    KeepOfAnother: "A sync of a rebuild that is over says how far the next one is.",
}

#[cfg(feature = "crash")]
mod choice {
    use super::Bug;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// One more than the number of the bug; 0 is none.
    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Plants a bug in every volume and session of this process, or none.
    pub fn plant(bug: Option<Bug>) {
        use forerun_core::planted::{self as core, Bug as Core};
        core::plant(match bug {
            Some(Bug::ReleasePinned) => Some(Core::ReleasePinned),
            Some(Bug::KeepStale) => Some(Core::KeepStale),
            Some(Bug::OverlapsIgnored) => Some(Core::OverlapsIgnored),
            Some(Bug::NextBeginsEarly) => Some(Core::NextBeginsEarly),
            _ => None,
        });
        PLANTED.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::SeqCst);
    }
    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8 + 1
    }
}

#[cfg(not(feature = "crash"))]
mod choice {
    pub(crate) const fn is(_bug: super::Bug) -> bool {
        false
    }
}

pub(crate) use choice::is;
#[cfg(feature = "crash")]
pub use choice::plant;
