//! Building netlink messages in one growing buffer. Lengths are patched in when a message or nest ends.

/// A buffer of netlink messages, written front to back.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

/// An open message: the offset of its header.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct MessageStart(usize);

/// An open nested attribute: the offset of its header.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Nest(usize);

const NLA_F_NESTED: u16 = 0x8000;

impl Writer {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forget everything from byte `length` on, which must be where a message began.
    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Open a message; `header` is the fixed part behind `nlmsghdr` (nfgenmsg, ifinfomsg, ...).
    pub fn begin(&mut self, kind: u16, flags: u16, sequence: u32, header: &[u8]) -> MessageStart {
        let start = MessageStart(self.bytes.len());
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(header);
        self.pad();
        start
    }

    pub fn end(&mut self, start: MessageStart) {
        let length = (self.bytes.len() - start.0) as u32;
        self.bytes[start.0..start.0 + 4].copy_from_slice(&length.to_ne_bytes());
    }

    /// The length so far of an open nest. Beyond `u16::MAX` it cannot be ended: the caller splits before.
    pub fn length_of_nest(&self, start: Nest) -> usize {
        self.bytes.len() - start.0
    }

    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.attribute_header(kind, value.len());
        self.bytes.extend_from_slice(value);
        self.pad();
    }

    /// Bytes as they are: the fixed header that some nests begin with.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    pub fn u8(&mut self, kind: u16, value: u8) {
        self.attribute(kind, &[value]);
    }

    /// Host byte order, as rtnetlink and generic netlink want it.
    pub fn u16(&mut self, kind: u16, value: u16) {
        self.attribute(kind, &value.to_ne_bytes());
    }

    pub fn u32(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_ne_bytes());
    }

    /// Network byte order, as netfilter wants it.
    pub fn be16(&mut self, kind: u16, value: u16) {
        self.attribute(kind, &value.to_be_bytes());
    }

    pub fn be32(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    pub fn be64(&mut self, kind: u16, value: u64) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// A NUL-terminated string.
    pub fn string(&mut self, kind: u16, value: &str) {
        self.attribute_header(kind, value.len() + 1);
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
        self.pad();
    }

    pub fn nest(&mut self, kind: u16) -> Nest {
        let start = Nest(self.bytes.len());
        self.attribute_header(kind | NLA_F_NESTED, 0);
        start
    }

    pub fn end_nest(&mut self, start: Nest) {
        let length = (self.bytes.len() - start.0) as u16;
        self.bytes[start.0..start.0 + 2].copy_from_slice(&length.to_ne_bytes());
    }

    fn attribute_header(&mut self, kind: u16, payload: usize) {
        self.bytes.extend_from_slice(&((payload + 4) as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
