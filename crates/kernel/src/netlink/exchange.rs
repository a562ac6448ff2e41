//! One request and its answers over a [`Socket`]: acknowledged commands, questions and streamed dumps.
//!
//! For rtnetlink, conntrack and generic netlink, whose commands stand alone. nf_tables batches are not spoken here.

use std::fmt;
use std::io;
use std::ops::ControlFlow;

use super::{Message, Protocol, Socket, Writer, attributes, messages};

const ERROR_ATTRIBUTE_TEXT: u16 = 1;
const DUMP_INTERRUPTED: u16 = libc::NLM_F_DUMP_INTR as u16;

/// A socket with a sequence counter and a receive buffer that is kept between requests.
#[derive(Debug)]
pub struct Exchange {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Commands that are sent in one datagram.
#[derive(Debug, Default)]
pub struct Batch {
    writer: Writer,
    sequences: Vec<u32>,
}

impl Batch {
    pub fn len(&self) -> usize {
        self.sequences.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// The size of the datagram so far.
    pub fn len_bytes(&self) -> usize {
        self.writer.len()
    }
}

/// How a dump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpEnd {
    Complete,
    /// Something changed while the kernel was listing: entries may be missing or double.
    Inconsistent,
    /// The caller had enough. Drop the exchange: the kernel refuses a second dump while one is unfinished.
    Stopped,
}

/// The kernel's "no": the error number, and its explanation if it gave one.
#[derive(Debug)]
pub struct Refusal {
    pub error: io::Error,
    pub explanation: Option<String>,
}

impl Exchange {
    pub fn open(protocol: Protocol) -> io::Result<Exchange> {
        let socket = Socket::open(protocol)?;
        socket.explain_errors()?;
        Ok(Exchange { socket, sequence: 0, buffer: Vec::new() })
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Send one command and wait for its acknowledgement.
    pub fn command(
        &mut self,
        kind: u16,
        flags: libc::c_int,
        header: &[u8],
        fill: impl FnOnce(&mut Writer),
    ) -> Result<(), Refusal> {
        let mut batch = Batch::default();
        self.append(&mut batch, true, kind, flags, header, fill);
        self.send(&batch, |_, refusal| Err(refusal))
    }

    /// Ask about one object whose answer is one message.
    pub fn ask_one(
        &mut self,
        kind: u16,
        header: &[u8],
        fill: impl FnOnce(&mut Writer),
        read: impl FnOnce(&Message<'_>),
    ) -> Result<(), Refusal> {
        let mut batch = Batch::default();
        // Refusals come unasked, and an acknowledgement would be another datagram.
        self.append(&mut batch, false, kind, 0, header, fill);
        self.socket.send(batch.writer.bytes())?;
        loop {
            let mut answers = messages(self.socket.receive(&mut self.buffer)?);
            let Some(message) = answers.find(|message| message.sequence == self.sequence) else { continue };
            if i32::from(message.kind) == libc::NLMSG_ERROR {
                return verdict(&message);
            }
            read(&message);
            return Ok(());
        }
    }

    /// Ask about one object and hand over its messages; the acknowledgement ends the answer.
    pub fn ask(
        &mut self,
        kind: u16,
        header: &[u8],
        fill: impl FnOnce(&mut Writer),
        mut each: impl FnMut(&Message<'_>),
    ) -> Result<(), Refusal> {
        let mut batch = Batch::default();
        self.append(&mut batch, true, kind, 0, header, fill);
        self.socket.send(batch.writer.bytes())?;
        loop {
            for message in messages(self.socket.receive(&mut self.buffer)?) {
                if message.sequence != self.sequence {
                    continue;
                }
                match i32::from(message.kind) {
                    libc::NLMSG_ERROR => return verdict(&message),
                    _ => each(&message),
                }
            }
        }
    }

    /// Add a command to `batch`. Only the `last` one asks for an acknowledgement: refusals come unasked, and
    /// half the work of small commands is in acknowledging each.
    pub fn append(
        &mut self,
        batch: &mut Batch,
        last: bool,
        kind: u16,
        flags: libc::c_int,
        header: &[u8],
        fill: impl FnOnce(&mut Writer),
    ) {
        let acknowledge = if last { libc::NLM_F_ACK } else { 0 };
        self.sequence = self.sequence.wrapping_add(1);
        batch.sequences.push(self.sequence);
        let flags = (flags | libc::NLM_F_REQUEST | acknowledge) as u16;
        let message = batch.writer.begin(kind, flags, self.sequence, header);
        fill(&mut batch.writer);
        batch.writer.end(message);
    }

    /// Send the batch, let `refused` judge each refusal of a command by its place in the batch, and return when the
    /// last command was answered.
    ///
    /// Keep batches below some hundred commands: if all are refused, the refusals must fit in the
    /// receive buffer.
    pub fn send(
        &mut self,
        batch: &Batch,
        mut refused: impl FnMut(usize, Refusal) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let Some(last) = batch.sequences.last() else { return Ok(()) };
        self.socket.send(batch.writer.bytes())?;
        loop {
            for message in messages(self.socket.receive(&mut self.buffer)?) {
                // Leftovers of a batch that was given up are passed over.
                let place = batch.sequences.iter().position(|sequence| *sequence == message.sequence);
                if let (Some(place), libc::NLMSG_ERROR) = (place, i32::from(message.kind)) {
                    verdict(&message).or_else(|refusal| refused(place, refusal))?;
                }
                if message.sequence == *last {
                    return Ok(());
                }
            }
        }
    }

    /// Ask for a dump and hand over each of its messages as it arrives.
    pub fn dump(
        &mut self,
        kind: u16,
        header: &[u8],
        fill: impl FnOnce(&mut Writer),
        mut each: impl FnMut(&Message<'_>) -> ControlFlow<()>,
    ) -> Result<DumpEnd, Refusal> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut writer = Writer::default();
        let message =
            writer.begin(kind, (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16, self.sequence, header);
        fill(&mut writer);
        writer.end(message);
        self.socket.send(writer.bytes())?;

        let mut end = DumpEnd::Complete;
        loop {
            for message in messages(self.socket.receive(&mut self.buffer)?) {
                if message.sequence != self.sequence {
                    continue;
                }
                if message.flags & DUMP_INTERRUPTED != 0 {
                    end = DumpEnd::Inconsistent;
                }
                match i32::from(message.kind) {
                    libc::NLMSG_DONE => return verdict(&message).map(|()| end),
                    libc::NLMSG_ERROR => return verdict(&message).map(|()| end),
                    _ if each(&message).is_break() => return Ok(DumpEnd::Stopped),
                    _ => {}
                }
            }
        }
    }
}

/// Both NLMSG_ERROR and NLMSG_DONE begin with an error number that is zero or negative.
pub(crate) fn verdict(message: &Message<'_>) -> Result<(), Refusal> {
    let code = message.payload.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    if code >= 0 {
        return Ok(());
    }
    Err(Refusal {
        error: io::Error::from_raw_os_error(code.saturating_neg()),
        explanation: explanation(message),
    })
}

fn explanation(message: &Message<'_>) -> Option<String> {
    if message.flags & libc::NLM_F_ACK_TLVS as u16 == 0 {
        return None;
    }
    let echoed = match i32::from(message.kind) {
        libc::NLMSG_DONE => 0,
        _ if message.flags & libc::NLM_F_CAPPED as u16 != 0 => 16,
        _ => u32::from_ne_bytes(message.payload.get(4..8)?.try_into().ok()?) as usize,
    };
    // The length is the kernel's word: it may be anything.
    let behind = echoed.checked_next_multiple_of(4)?.checked_add(4)?;
    let text = attributes(message.payload.get(behind..)?).find(|a| a.kind == ERROR_ATTRIBUTE_TEXT)?;
    text.text().map(str::to_owned)
}

impl Refusal {
    pub fn errno(&self) -> Option<i32> {
        self.error.raw_os_error()
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal { error, explanation: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.explanation {
            Some(text) => write!(f, "{} ({text})", self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(flags: libc::c_int, payload: &[u8]) -> Refusal {
        let (kind, flags) = (libc::NLMSG_ERROR as u16, flags as u16);
        verdict(&Message { kind, flags, sequence: 1, port: 0, payload }).unwrap_err()
    }

    #[test]
    fn the_explanation_stands_behind_the_echo() {
        let echo = [20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let text = [&[10, 0, 1, 0][..], b"taken\0", &[0; 2]].concat();
        let code = (-17_i32).to_ne_bytes();
        let capped = [&code[..], &echo, &text].concat();
        let whole = [&code[..], &echo, &[0; 4], &text].concat();
        let capped = refusal(libc::NLM_F_ACK_TLVS | libc::NLM_F_CAPPED, &capped);
        let whole = refusal(libc::NLM_F_ACK_TLVS, &whole);
        for refusal in [capped, whole] {
            assert_eq!((refusal.errno(), refusal.explanation.as_deref()), (Some(17), Some("taken")));
        }
    }

    #[test]
    fn no_length_and_no_error_number_is_too_large() {
        let payload = [&(-1_i32).to_ne_bytes()[..], &[0xff; 4], &[0; 12]].concat();
        assert_eq!(refusal(libc::NLM_F_ACK_TLVS, &payload).explanation, None);
        assert_eq!(refusal(0, &i32::MIN.to_ne_bytes()).errno(), Some(i32::MAX));
    }
}
