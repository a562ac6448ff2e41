//! Which function an address of an ELF file lies in, from its symbol table, without keeping the table.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Symbols that are read at once.
const AT_ONCE: usize = 4096;
const SYMBOL_SIZE: usize = 24;
const SECTION_SIZE: usize = 64;
/// Longer names are cut.
const LONGEST_NAME: usize = 4096;

const SECTION_SYMBOLS: u32 = 2;
const SECTION_NOTES: u32 = 7;
const SECTION_DYNAMIC_SYMBOLS: u32 = 11;
const NOTE_BUILD_ID: u64 = 3;
/// Of one section of notes; larger ones are none that we look for.
const MOST_NOTES: u64 = 4096;
const KIND_FUNCTION: u8 = 2;
const KIND_INDIRECT_FUNCTION: u8 = 10;

#[derive(Clone, Copy)]
struct Section {
    kind: u32,
    link: usize,
    offset: u64,
    size: u64,
}

/// The mangled names of the functions at `addresses` (sorted, as the file numbers them), as far as they are found.
pub(super) fn names(file: &File, addresses: &[u64]) -> io::Result<BTreeMap<u64, String>> {
    let sections = sections(file)?;
    let table = |kind| sections.iter().find(|section| section.kind == kind);
    // The second is what a stripped library is left with.
    let Some(symbols) = table(SECTION_SYMBOLS).or_else(|| table(SECTION_DYNAMIC_SYMBOLS)) else {
        return Ok(BTreeMap::new());
    };
    let Some(texts) = sections.get(symbols.link) else { return Ok(BTreeMap::new()) };
    let mut places: BTreeMap<u64, u64> = BTreeMap::new();
    let mut chunk = vec![0; AT_ONCE * SYMBOL_SIZE];
    let mut done = 0;
    while done < symbols.size {
        let length = usize::try_from(symbols.size - done).unwrap_or(usize::MAX).min(chunk.len());
        let chunk = chunk.get_mut(..length).unwrap_or_default();
        file.read_exact_at(chunk, symbols.offset + done)?;
        for symbol in chunk.chunks_exact(SYMBOL_SIZE) {
            note(symbol, addresses, &mut places);
        }
        done += length as u64;
    }
    places.into_iter().map(|(address, place)| Ok((address, text(file, texts, place)?))).collect()
}

/// Whether the file has the names of its own functions, as no stripped one does.
pub(super) fn has_names(file: &File) -> io::Result<bool> {
    Ok(sections(file)?.iter().any(|section| section.kind == SECTION_SYMBOLS))
}

/// What tells one build from all others, and is the same in a program and in the file with its names.
pub(super) fn build_id(file: &File) -> io::Result<Option<Vec<u8>>> {
    for section in sections(file)? {
        if section.kind != SECTION_NOTES || section.size > MOST_NOTES {
            continue;
        }
        let mut notes = vec![0; usize::try_from(section.size).unwrap_or_default()];
        file.read_exact_at(&mut notes, section.offset)?;
        if let Some(id) = build_id_among(&notes) {
            return Ok(Some(id.to_vec()));
        }
    }
    Ok(None)
}

/// A note is three numbers (the lengths of its name and content, its kind), then both, padded to four bytes.
fn build_id_among(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let (name, content) = (number(notes, 0, 4) as usize, number(notes, 4, 4) as usize);
        let start = 12 + name.next_multiple_of(4);
        let found = notes.get(start..start.checked_add(content)?)?;
        if number(notes, 8, 4) == NOTE_BUILD_ID && notes.get(12..16) == Some(b"GNU\0") {
            return Some(found);
        }
        notes = notes.get(start + content.next_multiple_of(4)..)?;
    }
}

/// If `symbol` is a function that holds some of `addresses`, note where its name is.
fn note(symbol: &[u8], addresses: &[u64], places: &mut BTreeMap<u64, u64>) {
    let kind = symbol.get(4).map_or(0, |info| info & 0xF);
    if kind != KIND_FUNCTION && kind != KIND_INDIRECT_FUNCTION {
        return;
    }
    let (name, start, size) = (number(symbol, 0, 4), number(symbol, 8, 8), number(symbol, 16, 8));
    let first = addresses.partition_point(|address| *address < start);
    let held = addresses.iter().skip(first).take_while(|address| **address - start < size);
    // Several symbols may name one function; the first is as good as the others.
    for address in held {
        places.entry(*address).or_insert(name);
    }
}

fn sections(file: &File) -> io::Result<Vec<Section>> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0)?;
    let native = if cfg!(target_endian = "little") { 1 } else { 2 };
    if !header.starts_with(&[0x7F, b'E', b'L', b'F', 2, native]) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not an ELF file of this machine's kind"));
    }
    let (at, count) = (number(&header, 40, 8), number(&header, 60, 2) as usize);
    let mut table = vec![0; count * SECTION_SIZE];
    file.read_exact_at(&mut table, at)?;
    let read = |section: &[u8]| Section {
        kind: number(section, 4, 4) as u32,
        offset: number(section, 24, 8),
        size: number(section, 32, 8),
        link: number(section, 40, 4) as usize,
    };
    Ok(table.chunks_exact(SECTION_SIZE).map(read).collect())
}

fn text(file: &File, texts: &Section, place: u64) -> io::Result<String> {
    let rest = usize::try_from(texts.size.saturating_sub(place)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; rest.min(LONGEST_NAME)];
    file.read_exact_at(&mut bytes, texts.offset.saturating_add(place))?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The number of `length` bytes at `offset`; 0 where there is none.
fn number(bytes: &[u8], offset: usize, length: usize) -> u64 {
    let mut whole = [0; 8];
    let Some(found) = bytes.get(offset..offset + length) else { return 0 };
    if cfg!(target_endian = "little") {
        whole.iter_mut().zip(found).for_each(|(place, byte)| *place = *byte);
        u64::from_le_bytes(whole)
    } else {
        whole.iter_mut().rev().zip(found.iter().rev()).for_each(|(place, byte)| *place = *byte);
        u64::from_be_bytes(whole)
    }
}
