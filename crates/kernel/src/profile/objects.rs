//! What is mapped as code: the program itself and the libraries it started with.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;

#[cfg(target_pointer_width = "32")]
use libc::Elf32_Phdr as Header;
#[cfg(target_pointer_width = "64")]
use libc::Elf64_Phdr as Header;

/// A program or library in memory.
#[derive(Clone, Debug)]
pub struct Object {
    /// Empty for the program itself.
    pub path: String,
    /// Added to an address of the file to get one of memory.
    pub bias: usize,
    /// Its executable part, in memory.
    pub code: Range<usize>,
    /// Where that part is in the file.
    pub file_offset: usize,
    /// The sorted index of the unwind tables, and all that follows it in its segment.
    pub(super) index: &'static [u8],
    /// The segment that holds the unwind tables.
    pub(super) tables: Range<usize>,
}

/// Everything loaded now that can be unwound through.
pub fn loaded_objects() -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: `note` is called during this call only, with the vector it casts the pointer back to.
    unsafe { libc::dl_iterate_phdr(Some(note), std::ptr::from_mut(&mut objects).cast()) };
    objects
}

unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, objects: *mut c_void) -> c_int {
    // SAFETY: the loader hands over a valid description; the pointer is the one given to dl_iterate_phdr.
    let (info, objects) = unsafe { (&*info, &mut *objects.cast::<Vec<Object>>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: pointer and number describe the program headers, which stay mapped with the object.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let path = if info.dlpi_name.is_null() {
        String::new()
    } else {
        // SAFETY: not null, and the loader ends its names with a zero.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy().into_owned()
    };
    objects.extend(describe(path, info.dlpi_addr as usize, headers));
    0
}

fn describe(path: String, bias: usize, headers: &[Header]) -> Option<Object> {
    let place = |header: &Header| {
        let start = bias.wrapping_add(header.p_vaddr as usize);
        start..start.wrapping_add(header.p_memsz as usize)
    };
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let code = loaded().find(|header| header.p_flags & libc::PF_X != 0)?;
    let index = place(headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?);
    let tables = loaded().map(place).find(|segment| segment.contains(&index.start))?;
    // SAFETY: the range lies in a segment that the loader has mapped readable. Only objects of the program's
    // start are used for longer than a moment, and those are never unmapped.
    let bytes = unsafe { std::slice::from_raw_parts(index.start as *const u8, tables.end - index.start) };
    Some(Object { path, bias, code: place(code), file_offset: code.p_offset as usize, index: bytes, tables })
}
