//! Clients that have gone while members still worked for them.
//!
//! What a client asked for cannot be taken back from the engine, so its reads go on when it hangs up, and the blocks they
//! bring are held until they are here. A client that asks, hangs up and comes again must not get more than one that stays:
//! its credit and its place are free only when the last of its requests has ended. There are no more of these than places.

use crate::credit::{Credit, Held};

/// One client that has gone.
#[derive(Debug)]
struct Client {
    held: Held,
    /// Requests that have not ended.
    left: usize,
}

/// All of them, by the number that their requests carry.
#[derive(Debug, Default)]
pub(super) struct Departed {
    table: Vec<Option<Client>>,
    free: Vec<usize>,
}

impl Departed {
    /// The number of the next one.
    pub(super) fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.table.len())
    }

    /// A client has gone that holds this, with so many requests in the volume's hands.
    pub(super) fn put(&mut self, held: Held, left: usize) {
        let client = Some(Client { held, left });
        match self.free.pop() {
            Some(at) => self.table[at] = client,
            None => self.table.push(client),
        }
    }

    /// Blocks that came for one of its reads are given back.
    pub(super) fn give(&mut self, at: usize, credit: &mut Credit, blocks: u64) {
        let client = self.table[at].as_mut().expect("it is here while requests of it are");
        credit.give(&mut client.held, blocks);
    }

    /// A request of it has ended; whether it was the last, so that its place is free.
    pub(super) fn ended(&mut self, at: usize) -> bool {
        let client = self.table[at].as_mut().expect("it is here while requests of it are");
        client.left -= 1;
        if client.left > 0 {
            return false;
        }
        debug_assert_eq!(client.held, Held::default(), "everything came back");
        self.table[at] = None;
        self.free.push(at);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_holds_comes_back_with_its_requests_and_its_place_with_the_last() {
        let mut credit = Credit::new(64_000, 64);
        let untouched = format!("{credit:?}");
        let mut departed = Departed::default();
        for _ in 0..2 {
            let mut held = Held::default();
            assert_eq!(credit.take(&mut held, 256) + credit.take(&mut held, 1), 257);
            let at = departed.next();
            departed.put(held, 2);
            assert_eq!(departed.next(), 1 - at.min(1), "each has a number of its own");
            departed.give(at, &mut credit, 256);
            assert!(!departed.ended(at));
            departed.give(at, &mut credit, 1);
            assert!(departed.ended(at));
        }
        assert_eq!(format!("{credit:?}"), untouched);
    }
}
