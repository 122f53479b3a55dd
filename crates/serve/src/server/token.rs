//! Who an event of the kernel is for.

/// What the loop polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Somebody wants the server to end.
    Stop,
    /// A volume wants to be looked at.
    Timer,
    /// A client comes in at this listener.
    Listener(u32),
    /// An operator comes in.
    Control,
    /// An operator asks.
    Operator(u32),
    /// Members of this export have ended something.
    Members(u32),
    /// What has become of this block device.
    Device(u32),
    /// The client in the place `at`.
    Client {
        /// Its place.
        at: u32,
        /// The lower half of its number. It tells it from the client that had the place before, an event of which may still be
        /// there; so many clients do not come within a turn that half were not enough.
        number: u32,
    },
}

/// Places of clients begin here; below are the others, by kind.
const CLIENTS: u32 = 1 << 16;
const KIND_SHIFT: u32 = 12;

impl Token {
    /// Of the client `number` in the place `at`.
    pub(super) const fn of_client(at: usize, number: u64) -> Self {
        Self::Client { at: at as u32, number: number as u32 }
    }

    /// For the kernel.
    pub(super) fn number(self) -> u64 {
        let (kind, index) = match self {
            Self::Stop => (0, 0),
            Self::Timer => (1, 0),
            Self::Listener(index) => (2, index),
            Self::Control => (3, 0),
            Self::Operator(index) => (4, index),
            Self::Members(index) => (5, index),
            Self::Device(index) => (6, index),
            Self::Client { at, number } => return u64::from(number) << 32 | u64::from(CLIENTS + at),
        };
        assert!(index < 1 << KIND_SHIFT, "listeners, operators and exports are few");
        u64::from(kind << KIND_SHIFT | index)
    }

    /// From the kernel.
    pub(super) fn of(token: u64) -> Self {
        let (place, number) = (token as u32, (token >> 32) as u32);
        if let Some(at) = place.checked_sub(CLIENTS) {
            return Self::Client { at, number };
        }
        let index = place & ((1 << KIND_SHIFT) - 1);
        match place >> KIND_SHIFT {
            0 => Self::Stop,
            1 => Self::Timer,
            2 => Self::Listener(index),
            3 => Self::Control,
            4 => Self::Operator(index),
            5 => Self::Members(index),
            6 => Self::Device(index),
            kind => unreachable!("nothing of kind {kind} is polled"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn an_event_is_of_one_client_and_not_of_the_next_in_its_place() {
        let (was, is) = (Token::of_client(3, 7), Token::of_client(3, 8));
        assert_ne!(was.number(), is.number());
        assert_eq!(Token::of_client(1023, (5 << 32) + 9), Token::Client { at: 1023, number: 9 });
        let others = [Token::Stop, Token::Timer, Token::Control, Token::Listener(3), Token::Operator(7)];
        for token in others.into_iter().chain([Token::Members(511), Token::Device(63), was, is]) {
            assert_eq!(Token::of(token.number()), token);
        }
    }
}
