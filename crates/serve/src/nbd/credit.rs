//! Credit: how much of the cache answers may hold that clients have not taken yet.
//!
//! An answer pins its blocks until the client's socket has taken them, and a client that never reads holds them for
//! ever. Half of the cache may be held so. Half of that is cut into equal reserves, one for each connection that may
//! exist, so whatever the others do a client always gets on; the other half is shared, and a connection may take from it
//! as long as it holds no more than what is left (the dynamic threshold of packet switches: one greedy client gets half
//! of it, two a third each). Units are blocks.

/// The pool.
#[derive(Debug)]
pub struct Credit {
    shared_left: u64,
    reserve: u64,
}

/// What one connection holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    reserved: u64,
    shared: u64,
}

impl Credit {
    /// The pool of a cache of `cache_blocks`, for at most `connections`.
    #[must_use]
    pub fn new(cache_blocks: u64, connections: u64) -> Self {
        let half = cache_blocks / 4;
        Self { shared_left: half, reserve: half / connections.max(1) }
    }

    /// Takes up to `want` blocks: all of it, or less for a connection that holds nothing, or nothing.
    pub fn take(&mut self, held: &mut Held, want: u64) -> u64 {
        let reserved = self.reserve - held.reserved;
        let shared = self.shared_left.saturating_sub(held.shared) / 2;
        let granted = if reserved + shared >= want {
            want
        } else if *held == Held::default() {
            reserved + shared
        } else {
            return 0;
        };
        let from_reserve = granted.min(reserved);
        held.reserved += from_reserve;
        held.shared += granted - from_reserve;
        self.shared_left -= granted - from_reserve;
        granted
    }

    /// Gives blocks back.
    pub fn give(&mut self, held: &mut Held, blocks: u64) {
        let shared = blocks.min(held.shared);
        held.shared -= shared;
        self.shared_left += shared;
        held.reserved =
            held.reserved.checked_sub(blocks - shared).expect("no more comes back than was taken");
    }

    /// Gives back all that a connection holds but `kept` blocks.
    pub fn give_but(&mut self, held: &mut Held, kept: u64) {
        self.give(held, held.reserved + held.shared - kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_others_hold_everyone_gets_its_reserve() {
        let mut credit = Credit::new(64_000, 64);
        let mut held = vec![Held::default(); 64];
        for connection in &mut held[..63] {
            while credit.take(connection, 64) > 0 {}
        }
        let last = &mut held[63];
        assert!(credit.take(last, 1024) >= credit.reserve);
    }

    #[test]
    fn one_client_alone_may_hold_much_and_everything_comes_back() {
        let mut credit = Credit::new(64_000, 64);
        let mut held = Held::default();
        let mut total = 0;
        loop {
            let got = credit.take(&mut held, 256);
            if got == 0 {
                break;
            }
            total += got;
        }
        assert!(total > 16_000 / 3, "a third of the shared half at least: {total}");
        credit.give(&mut held, total);
        assert_eq!((held, credit.shared_left), (Held::default(), 16_000));
    }

    #[test]
    fn a_request_longer_than_the_pool_is_granted_in_parts() {
        let mut credit = Credit::new(4096, 64);
        let mut held = Held::default();
        let first = credit.take(&mut held, 100_000);
        assert!((16..1024).contains(&first));
        assert_eq!(credit.take(&mut held, 100_000), 0, "the next part waits for the first");
        credit.give(&mut held, first);
        assert_eq!(credit.take(&mut held, 100_000), first);
    }
}
