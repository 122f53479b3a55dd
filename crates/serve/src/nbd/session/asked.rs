//! The requests of a session that are not answered, by number, and the parts of its READs.

use crate::nbd::handshake::Terms;
use crate::nbd::wire::{self, Errno, Request};
use forerun_core::units::Extent;
use std::collections::VecDeque;

/// A part of a READ: asked for, or answered and waiting for those before it.
#[derive(Debug)]
pub(super) struct Part<A> {
    pub(super) number: u16,
    pub(super) extent: Extent,
    pub(super) answer: Option<Result<A, Errno>>,
}

/// One request.
#[derive(Debug)]
pub(super) struct Asked<A> {
    pub(super) request: Request,
    /// Bytes that parts were made of.
    pub(super) issued: u64,
    pub(super) parts: VecDeque<Part<A>>,
    pub(super) next_part: u16,
    /// The head of a reply in one piece was sent.
    pub(super) head_sent: bool,
    /// An error was answered: what still comes is thrown away.
    pub(super) failed: bool,
}

impl<A> Asked<A> {
    /// Whether all of it is asked for.
    pub(super) const fn is_issued(&self) -> bool {
        self.issued == self.request.length as u64
    }

    /// Whether the part that is next to be sent is here.
    pub(super) fn is_front_here(&self) -> bool {
        self.parts.front().is_some_and(|part| part.answer.is_some())
    }

    /// Whether it is answered in one piece, however many parts it has.
    pub(super) const fn is_one_piece(&self, terms: Terms) -> bool {
        !terms.structured || self.request.flags & wire::request::DF != 0
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Requests<A> {
    table: Vec<Option<Asked<A>>>,
    free: Vec<u16>,
}

impl<A> Default for Requests<A> {
    fn default() -> Self {
        Self { table: Vec::new(), free: Vec::new() }
    }
}

impl<A> Requests<A> {
    pub(super) fn put(&mut self, request: Request) -> u16 {
        let asked = Asked {
            request,
            issued: 0,
            parts: VecDeque::new(),
            next_part: 0,
            head_sent: false,
            failed: false,
        };
        if let Some(at) = self.free.pop() {
            self.table[usize::from(at)] = Some(asked);
            return at;
        }
        self.table.push(Some(asked));
        u16::try_from(self.table.len() - 1).expect("requests are bounded")
    }

    pub(super) fn get(&mut self, at: u16) -> &mut Asked<A> {
        self.table[usize::from(at)].as_mut().expect("a request stays until it is answered")
    }

    pub(super) fn remove(&mut self, at: u16) -> Asked<A> {
        self.free.push(at);
        self.table[usize::from(at)].take().expect("a request is answered once")
    }

    pub(super) const fn len(&self) -> usize {
        self.table.len() - self.free.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of all that are there.
    pub(super) fn all(&self) -> Vec<u16> {
        (0..self.table.len()).filter(|&at| self.table[at].is_some()).map(|at| at as u16).collect()
    }
}
