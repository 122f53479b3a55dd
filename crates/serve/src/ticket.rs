//! What the numbers mean that the engine carries for its host: whose a request is, and what is to be done with its answer.
//!
//! The engine gives each id back as it was given, and its log writes it down. Here, and nowhere else, a meaning becomes an id.

use crate::nbd::session::Ticket;

/// Who asked, and what: comes back with the volume's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tag {
    /// Its place among the clients.
    pub(crate) client: u32,
    /// Which request of its session.
    pub(crate) ticket: Ticket,
}

/// What an id of the engine stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    /// A read of a client, and how often requests had been given up when it was asked: what the engine still has of a request that
    /// was given up must not be taken for the next one of the same tag.
    Read(Tag, u16),
    /// Everything acknowledged is to be durable; likewise.
    Flush(Tag, u16),
    /// A part of a write, by number.
    Part(u32),
    /// The first or the last block of a write, of which the write covers a part.
    Edge {
        /// Number of the write.
        write: u32,
        /// The last.
        tail: bool,
    },
    /// A client will read it: nobody waits.
    Hint,
}

/// The kind is in the upper bits; below come 13 of the times, and 48 of a tag, of which a client's place has 16.
const KIND_SHIFT: u32 = 61;
const TIMES_SHIFT: u32 = 48;
const CLIENTS_MAX: u32 = 1 << 16;
/// Times are counted up to this, and then from 0 on.
pub(crate) const TIMES: u64 = 1 << (KIND_SHIFT - TIMES_SHIFT);

impl Tag {
    fn number(self) -> u64 {
        assert!(self.client < CLIENTS_MAX, "clients are bounded");
        u64::from(self.client) << 32 | u64::from(self.ticket.request) << 16 | u64::from(self.ticket.part)
    }

    const fn of(number: u64) -> Self {
        let ticket = Ticket { request: (number >> 16) as u16, part: number as u16 };
        Self { client: (number >> 32) as u32 % CLIENTS_MAX, ticket }
    }
}

impl Id {
    /// For the engine.
    pub(crate) fn number(self) -> u64 {
        let (kind, rest) = match self {
            Self::Read(tag, times) => (0, u64::from(times) << TIMES_SHIFT | tag.number()),
            Self::Flush(tag, times) => (1, u64::from(times) << TIMES_SHIFT | tag.number()),
            Self::Part(part) => (2, u64::from(part)),
            Self::Edge { write, tail } => (3, u64::from(write) << 1 | u64::from(tail)),
            Self::Hint => (4, 0),
        };
        kind << KIND_SHIFT | rest
    }

    /// From the engine.
    pub(crate) fn of(number: u64) -> Self {
        let rest = number & ((1 << KIND_SHIFT) - 1);
        match number >> KIND_SHIFT {
            0 => Self::Read(Tag::of(rest), (rest >> TIMES_SHIFT) as u16),
            1 => Self::Flush(Tag::of(rest), (rest >> TIMES_SHIFT) as u16),
            2 => Self::Part(rest as u32),
            3 => Self::Edge { write: (rest >> 1) as u32, tail: rest & 1 == 1 },
            4 => Self::Hint,
            kind => unreachable!("no id of kind {kind} was given to the engine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_back_as_what_it_stood_for() {
        let tags = [
            Tag::default(),
            Tag { client: CLIENTS_MAX - 1, ticket: Ticket { request: u16::MAX, part: u16::MAX } },
            Tag { client: 7, ticket: Ticket { request: 1, part: 2 } },
        ];
        let of_tags = tags
            .iter()
            .flat_map(|&tag| [Id::Read(tag, 0), Id::Read(tag, TIMES as u16 - 1), Id::Flush(tag, 1)]);
        let others = [0, 1, u32::MAX].into_iter().flat_map(|n| {
            [Id::Part(n), Id::Edge { write: n, tail: false }, Id::Edge { write: n, tail: true }]
        });
        let all: Vec<Id> = of_tags.chain(others).chain([Id::Hint]).collect();
        for (index, id) in all.iter().enumerate() {
            assert_eq!(Id::of(id.number()), *id);
            assert!(all[..index].iter().all(|other| other.number() != id.number()), "{id:?}");
        }
    }
}
