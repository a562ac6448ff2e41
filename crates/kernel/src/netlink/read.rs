//! Taking netlink messages and attributes apart. Truncated input ends the iteration; it never panics.

/// One message of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    /// The sender's port id; on notifications, that of the socket whose request caused them.
    pub port: u32,
    /// Everything behind `nlmsghdr`.
    pub payload: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a> {
    /// The type, without the nested and byte-order flags.
    pub kind: u16,
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    pub fn nested(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        attributes(self.value)
    }

    pub fn u8(&self) -> Option<u8> {
        self.value.first().copied()
    }

    pub fn be16(&self) -> Option<u16> {
        Some(u16::from_be_bytes(self.value.get(..2)?.try_into().ok()?))
    }

    pub fn be32(&self) -> Option<u32> {
        Some(u32::from_be_bytes(self.value.get(..4)?.try_into().ok()?))
    }

    pub fn be64(&self) -> Option<u64> {
        Some(u64::from_be_bytes(self.value.get(..8)?.try_into().ok()?))
    }

    /// Host byte order, as are the two below.
    pub fn u16(&self) -> Option<u16> {
        Some(u16::from_ne_bytes(self.value.get(..2)?.try_into().ok()?))
    }

    pub fn u64(&self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.value.get(..8)?.try_into().ok()?))
    }

    pub fn u32(&self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.value.get(..4)?.try_into().ok()?))
    }

    /// Up to the first NUL.
    pub fn text(&self) -> Option<&'a str> {
        let end = self.value.iter().position(|b| *b == 0).unwrap_or(self.value.len());
        std::str::from_utf8(&self.value[..end]).ok()
    }
}

/// The messages in a datagram (or in a batch about to be sent).
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header: &[u8; 16] = rest.first_chunk()?;
        let length = word(&header[0..4])? as usize;
        let message = Message {
            kind: half(&header[4..6])?,
            flags: half(&header[6..8])?,
            sequence: word(&header[8..12])?,
            port: word(&header[12..16])?,
            payload: rest.get(16..length)?,
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The attributes in a payload (behind the fixed header of its message kind).
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> + use<'_> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header: &[u8; 4] = rest.first_chunk()?;
        let length = half(&header[0..2])? as usize;
        let attribute = Attribute { kind: half(&header[2..4])? & 0x3fff, value: rest.get(4..length)? };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(attribute)
    })
}

fn half(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}
