//! Keeping the process small: how the allocator holds memory, and giving it back after a burst.

/// Tune the allocator for a process that is small most of the time. Call it before any thread is started.
///
/// glibc gives each thread a heap of its own and keeps ever larger blocks in them; objects that one thread
/// makes and another frees then leave holes that are never returned.
pub fn stay_small() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers; changes settings of the allocator only.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
    }
}

/// Larger blocks (batches, lists being read) get pages of their own, which go back when they are freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 * 1024;

/// Return free heap pages to the system.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers and may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Unmap the program's code and constants; what is used next is mapped again from the page cache. The kernel maps a file in
/// pieces far larger than what is called: after a start megabytes stay mapped that only the start needed, count as used, and
/// are slow to be reclaimed. To be called once: breakpoints and probes that somebody has set in the program are lost.
pub fn forget_start() {
    // SAFETY: the callback has the type that is asked for, keeps nothing of what it is given, and needs no data.
    unsafe {
        libc::dl_iterate_phdr(Some(forget_program), std::ptr::null_mut());
    }
}

/// The first one that is iterated over is the program; returning anything but 0 ends it there.
unsafe extern "C" fn forget_program(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: `info` and its headers are valid until this returns, as `dl_iterate_phdr` promises; `sysconf` takes a number.
    let (info, headers, page) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info, headers, libc::sysconf(libc::_SC_PAGESIZE))
    };
    let Ok(page) = usize::try_from(page) else { return 1 };
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let start = (info.dlpi_addr + header.p_vaddr) as usize;
        let (first, end) = (start & !(page - 1), start + header.p_memsz as usize);
        // SAFETY: a mapping of the program's file that nobody writes to: its pages have the same bytes when they are read
        // again. If it fails, nothing changes.
        unsafe {
            libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_DONTNEED);
        }
    }
    1
}

#[cfg(test)]
mod tests {
    /// What is mapped of the program's own file.
    fn mapped_kib() -> u64 {
        let program = std::env::current_exe().unwrap();
        let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_own = false;
        let mut sum = 0;
        for line in mappings.lines() {
            match line.strip_prefix("Rss:") {
                Some(size) if is_own => {
                    sum += size.split_whitespace().next().unwrap().parse::<u64>().unwrap();
                }
                // The first line of a mapping begins with its address.
                None if !line.split(' ').next().unwrap().ends_with(':') => {
                    is_own = line.ends_with(program.to_str().unwrap());
                }
                _ => {}
            }
        }
        sum
    }

    #[test]
    fn code_that_has_run_is_unmapped_and_runs_again() {
        let before = mapped_kib();
        super::forget_start();
        let after = mapped_kib();
        assert!(after < before, "{after} KiB of {before} are still mapped");
        assert_eq!(format!("{:>5}", [1, 2, 3].iter().sum::<u32>()), "    6");
    }
}
