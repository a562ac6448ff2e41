//! [`Connection`]: the socket over which batches are committed and the kernel is asked.

use std::io;

use super::decode::{self, Answer};
use super::sys::*;
use super::{
    Batch, CommitError, CounterReading, DumpedElement, ElementData, Error, Table, TableFamily, Transport,
    encode,
};
use crate::netlink::{Message, Protocol, Socket, Writer, messages};

/// A connection to the nf_tables of one network namespace: the one the opening thread was in.
///
/// A commit blocks for as long as the kernel works on it.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    /// The largest batch the send buffer was asked to hold.
    reserved: usize,
    /// Questions are numbered from the upper half, so that no answer to one looks like one to a batch.
    question: u32,
    buffer: Vec<u8>,
}

const FIRST_QUESTION: u32 = 1 << 31;
/// How often a short listing is read again because a commit fell into it.
const LISTING_ATTEMPTS: usize = 10;

impl Connection {
    pub fn open() -> io::Result<Connection> {
        let socket = Socket::open(Protocol::Netfilter)?;
        socket.explain_errors()?;
        Ok(Connection { socket, reserved: 0, question: FIRST_QUESTION, buffer: vec![0; 32 * 1024] })
    }

    /// The port id that notifications of this connection's commits carry.
    pub fn port(&self) -> u32 {
        self.socket.port()
    }

    fn send(&mut self, batch: &Batch) -> io::Result<()> {
        // The kernel keeps some of the buffer for itself.
        let wanted = batch.len_bytes() + 1024;
        if wanted > self.reserved {
            self.socket.reserve_send_buffer(wanted)?;
            self.reserved = wanted;
        }
        self.socket.send(batch.bytes())
    }

    /// Read whatever answers there are, so that none is left for the next commit. The kernel works on a
    /// batch inside `send`, and has answered when that returns: there is nothing to wait for.
    fn read_answers(&mut self) -> io::Result<Answers> {
        let mut answers = Answers::default();
        loop {
            match self.socket.receive_arrived(&mut self.buffer) {
                Ok(None) => return Ok(answers),
                Ok(Some(datagram)) => messages(datagram).for_each(|message| answers.note(&message)),
                // More errors than the receive buffer holds: the first ones are still there to be read.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => answers.lost = true,
                Err(error) => return Err(error),
            }
        }
    }

    /// Ask one question and hand every message of the answer to `each`.
    pub(super) fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        family: u8,
        attributes: impl FnOnce(&mut Writer),
        mut each: impl FnMut(&Message<'_>),
    ) -> io::Result<Reading> {
        self.ask_while(kind, flags, family, attributes, |message| {
            each(message);
            true
        })
    }

    /// The same for as long as `each` wants more. After an answer that was not read to its end, the connection cannot be
    /// asked again.
    fn ask_while(
        &mut self,
        kind: u16,
        flags: u16,
        family: u8,
        attributes: impl FnOnce(&mut Writer),
        mut each: impl FnMut(&Message<'_>) -> bool,
    ) -> io::Result<Reading> {
        self.question = self.question.checked_add(1).unwrap_or(FIRST_QUESTION);
        let mut writer = Writer::default();
        let kind = NFNL_SUBSYS_NFTABLES << 8 | kind;
        let start = writer.begin(kind, NLM_F_REQUEST | flags, self.question, &[family, 0, 0, 0]);
        attributes(&mut writer);
        writer.end(start);
        self.socket.send(writer.bytes())?;
        let mut reading = Reading::Whole;
        loop {
            let datagram = self.socket.receive(&mut self.buffer)?;
            for message in messages(datagram).filter(|message| message.sequence == self.question) {
                if message.flags & NLM_F_DUMP_INTR != 0 {
                    reading = Reading::Interrupted;
                }
                match decode::answer(&message) {
                    Some(Answer { errno: 0, .. }) => return Ok(reading),
                    Some(Answer { errno, .. }) => return Err(io::Error::from_raw_os_error(errno)),
                    None if each(&message) => {}
                    None => return Ok(Reading::Interrupted),
                }
            }
        }
    }

    /// The handles of a table's rules, each with the named counter that it counts in, if it does.
    pub fn rules(&mut self, family: TableFamily, table: &str) -> Result<Vec<(u64, Option<String>)>, Error> {
        let what = format!("the rules of table {table:?}");
        let of_table = |writer: &mut Writer| writer.string(NFTA_RULE_TABLE, table);
        self.list(&what, NFT_MSG_GETRULE, family, of_table, |message| decode::rule(message, table))
    }

    /// Count the elements of a set by listing them, no further than a few above `most`: for kernels that do not say it. The
    /// listing is given up there, so it has a connection of its own.
    pub fn count_elements(family: TableFamily, table: &str, set: &str, most: usize) -> io::Result<usize> {
        let of_set = |writer: &mut Writer| {
            writer.string(NFTA_SET_ELEM_LIST_TABLE, table);
            writer.string(NFTA_SET_ELEM_LIST_SET, set);
        };
        let mut count = 0;
        let family = encode::family_number(family);
        Connection::open()?.ask_while(NFT_MSG_GETSETELEM, NLM_F_DUMP, family, of_set, |message| {
            count += decode::elements(message).count();
            count <= most
        })?;
        Ok(count)
    }

    /// Ask for a listing until one is read with no commit in between.
    fn list<T>(
        &mut self,
        what: &str,
        kind: u16,
        family: TableFamily,
        attributes: impl Fn(&mut Writer),
        read: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        for _ in 0..LISTING_ATTEMPTS {
            let mut found = Vec::new();
            let each = |message: &Message<'_>| found.extend(read(message));
            let reading = self
                .ask(kind, NLM_F_DUMP, encode::family_number(family), &attributes, each)
                .map_err(|error| Error::asking(what, error))?;
            if reading == Reading::Whole {
                return Ok(found);
            }
        }
        Err(Error::Interrupted { what: what.to_owned() })
    }
}

impl Transport for Connection {
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        if batch.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.send(batch) {
            let room = self.socket.send_buffer().unwrap_or_default();
            return Err(CommitError::unsent(batch, &error, room));
        }
        let answers = self.read_answers().map_err(|error| CommitError::unanswered(batch, &error))?;
        match answers.first_error {
            Some(answer) => Err(CommitError::refused(batch, &answer)),
            None if answers.lost || !answers.acknowledged => {
                Err(CommitError::unanswered(batch, &io::Error::from_raw_os_error(libc::ENOBUFS)))
            }
            None => Ok(()),
        }
    }

    fn generation(&mut self) -> Result<u32, Error> {
        let what = "the nf_tables generation";
        let mut generation = None;
        // The acknowledgement ends the answer, which is otherwise a single message without an end mark.
        self.ask(
            NFT_MSG_GETGEN,
            NLM_F_ACK,
            NFPROTO_UNSPEC,
            |_| {},
            |message| {
                generation = decode::find(message, NFTA_GEN_ID).and_then(|id| id.be32());
            },
        )
        .map_err(|error| Error::asking(what, error))?;
        generation.ok_or_else(|| Error::asking(what, io::ErrorKind::InvalidData.into()))
    }

    fn tables(&mut self, family: TableFamily) -> Result<Vec<Table>, Error> {
        self.list("the list of tables", NFT_MSG_GETTABLE, family, |_| {}, decode::table)
    }

    fn sets(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error> {
        let what = format!("the sets of table {table:?}");
        let of_table = |writer: &mut Writer| writer.string(NFTA_SET_TABLE, table);
        let listed = self.list(&what, NFT_MSG_GETSET, family, of_table, |message| {
            decode::text(message, NFTA_SET_NAME).map(str::to_owned)
        });
        match listed {
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(Vec::new()),
            other => other,
        }
    }

    fn chains(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error> {
        let what = format!("the chains of table {table:?}");
        // The kernel lists the chains of all tables, whatever table the question names.
        self.list(
            &what,
            NFT_MSG_GETCHAIN,
            family,
            |_| {},
            |message| {
                let of_table = decode::text(message, NFTA_CHAIN_TABLE) == Some(table);
                of_table.then(|| decode::text(message, NFTA_CHAIN_NAME).map(str::to_owned)).flatten()
            },
        )
    }

    fn set_size(&mut self, family: TableFamily, table: &str, set: &str, most: usize) -> Result<usize, Error> {
        let of_set = |writer: &mut Writer| {
            writer.string(NFTA_SET_TABLE, table);
            writer.string(NFTA_SET_NAME, set);
        };
        let mut size = None;
        let asked = self.ask(NFT_MSG_GETSET, NLM_F_ACK, encode::family_number(family), of_set, |message| {
            size = decode::find(message, NFTA_SET_COUNT).and_then(|count| count.be32());
        });
        let counted = asked.and_then(|_| match size {
            Some(size) => Ok(size as usize),
            None => Connection::count_elements(family, table, set, most),
        });
        counted.map_err(|error| Error::asking(&format!("the size of {set:?} in table {table:?}"), error))
    }

    fn dump_elements(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<(), Error> {
        let of_set = |writer: &mut Writer| {
            writer.string(NFTA_SET_ELEM_LIST_TABLE, table);
            writer.string(NFTA_SET_ELEM_LIST_SET, set);
        };
        let what = || format!("the elements of {set:?} in table {table:?}");
        let family = encode::family_number(family);
        let reading = self.ask(NFT_MSG_GETSETELEM, NLM_F_DUMP, family, of_set, |message| {
            decode::elements(message).for_each(&mut *each);
        });
        match reading.map_err(|error| Error::asking(&what(), error))? {
            Reading::Whole => Ok(()),
            Reading::Interrupted => Err(Error::Interrupted { what: what() }),
        }
    }

    /// The kernel looks just this one up.
    fn find_element(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        key: &[u8],
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<bool, Error> {
        let of_element = |writer: &mut Writer| {
            writer.string(NFTA_SET_ELEM_LIST_TABLE, table);
            writer.string(NFTA_SET_ELEM_LIST_SET, set);
            let list = writer.nest(NFTA_SET_ELEM_LIST_ELEMENTS);
            encode::element(writer, key, ElementData::None, 0, None);
            writer.end_nest(list);
        };
        let family = encode::family_number(family);
        let mut is_there = false;
        let reading = self.ask(NFT_MSG_GETSETELEM, NLM_F_ACK, family, of_element, |message| {
            for element in decode::elements(message) {
                is_there = true;
                each(element);
            }
        });
        match reading {
            Ok(_) => Ok(is_there),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(error) => Err(Error::asking(&format!("an element of {set:?} in table {table:?}"), error)),
        }
    }

    /// The kernel looks just this one up.
    fn packets_counted(
        &mut self,
        family: TableFamily,
        table: &str,
        counter: &str,
    ) -> Result<Option<u64>, Error> {
        let of_counter = |writer: &mut Writer| encode::counter_name(writer, table, counter);
        let mut packets = None;
        let family = encode::family_number(family);
        let asked = self.ask(NFT_MSG_GETOBJ, NLM_F_ACK, family, of_counter, |message| {
            packets = decode::counter(message, table).map(|found| found.packets);
        });
        match asked {
            Ok(_) => Ok(packets),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(Error::asking(&format!("counter {counter:?} of table {table:?}"), error)),
        }
    }

    fn counters(
        &mut self,
        family: TableFamily,
        table: &str,
        each: &mut dyn FnMut(CounterReading<'_>),
    ) -> Result<(), Error> {
        let of_table = |writer: &mut Writer| {
            writer.string(NFTA_OBJ_TABLE, table);
            writer.be32(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
        };
        let what = || format!("the counters of table {table:?}");
        let family = encode::family_number(family);
        let reading = self.ask(NFT_MSG_GETOBJ, NLM_F_DUMP, family, of_table, |message| {
            decode::counter(message, table).into_iter().for_each(&mut *each);
        });
        match reading.map_err(|error| Error::asking(&what(), error))? {
            Reading::Whole => Ok(()),
            Reading::Interrupted => Err(Error::Interrupted { what: what() }),
        }
    }
}

/// What came back for a batch.
#[derive(Default)]
struct Answers {
    acknowledged: bool,
    /// The kernel goes on behind an error, to find more of them; the first is the cause of most others.
    first_error: Option<Answer>,
    lost: bool,
}

impl Answers {
    fn note(&mut self, message: &Message<'_>) {
        match decode::answer(message) {
            Some(answer) if answer.sequence >= FIRST_QUESTION => {}
            Some(answer) if answer.errno == 0 => self.acknowledged = true,
            Some(answer) if self.first_error.is_none() => self.first_error = Some(answer),
            Some(_) | None => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Whole,
    /// The kernel saw a commit between two parts of the answer.
    Interrupted,
}
