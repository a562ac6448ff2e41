//! What an event of epoll is about, packed into the 64 bits that the kernel hands back.

/// Slots are used again: an event about what stood in a slot before has another age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Another thread has something to say.
    Wake,
    Front(u32),
    /// A connection, and whether it is its endpoint's side.
    Conn {
        index: u32,
        age: u16,
        is_endpoint: bool,
    },
    /// A flow of UDP.
    Flow {
        index: u32,
        age: u16,
    },
}

impl Token {
    pub(crate) fn pack(self) -> u64 {
        let whole = |kind: u64, index: u32, age: u16, side: bool| {
            kind << 56 | u64::from(side) << 48 | u64::from(age) << 32 | u64::from(index)
        };
        match self {
            Token::Wake => whole(0, 0, 0, false),
            Token::Front(index) => whole(1, index, 0, false),
            Token::Conn { index, age, is_endpoint } => whole(2, index, age, is_endpoint),
            Token::Flow { index, age } => whole(3, index, age, false),
        }
    }

    pub(crate) fn unpack(bits: u64) -> Token {
        let (index, age) = (bits as u32, (bits >> 32) as u16);
        match bits >> 56 {
            0 => Token::Wake,
            1 => Token::Front(index),
            2 => Token::Conn { index, age, is_endpoint: bits >> 48 & 1 == 1 },
            _ => Token::Flow { index, age },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let tokens = [
            Token::Wake,
            Token::Front(7),
            Token::Conn { index: u32::MAX, age: u16::MAX, is_endpoint: true },
            Token::Conn { index: 0, age: 1, is_endpoint: false },
            Token::Flow { index: 3, age: 9 },
        ];
        for token in tokens {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
