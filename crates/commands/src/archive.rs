//! A tar archive (ustar), written file by file.

use std::io::{self, Write};

const BLOCK: usize = 512;

pub(super) struct Archive<W> {
    to: W,
    /// Seconds since 1970, of all files.
    time: u64,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(to: W, time: u64) -> Archive<W> {
        Archive { to, time }
    }

    /// Names are ours, and short.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.to.write_all(&self.header(name, content.len()))?;
        self.to.write_all(content)?;
        let rest = content.len().next_multiple_of(BLOCK) - content.len();
        self.to.write_all([0; BLOCK].get(..rest).unwrap_or_default())
    }

    /// Two empty blocks.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.to.write_all(&[0; 2 * BLOCK])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn header(&self, name: &str, size: usize) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| {
            block.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
        };
        put(0, name.as_bytes().get(..100).unwrap_or(name.as_bytes()));
        put(100, b"0000644");
        put(108, b"0000000");
        put(116, b"0000000");
        put(124, format!("{size:011o}").as_bytes());
        put(136, format!("{:011o}", self.time).as_bytes());
        put(148, b"        ");
        put(156, b"0");
        put(257, b"ustar\x0000");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        let text = format!("{sum:06o}\0 ");
        block.iter_mut().skip(148).zip(text.as_bytes()).for_each(|(place, byte)| *place = *byte);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program of this machine makes of it.
    #[test]
    fn tar_reads_it() {
        let mut archive = Archive::new(Vec::new(), 1_700_000_000);
        archive.add("bundle/a.txt", b"hello\n").unwrap();
        archive.add("bundle/empty", b"").unwrap();
        archive.add("bundle/b.json", &vec![b'x'; 1024]).unwrap();
        let file = std::env::temp_dir().join(format!("pointsman-bundle-{}.tar", std::process::id()));
        std::fs::write(&file, archive.finish().unwrap()).unwrap();
        let output = std::process::Command::new("tar").args(["--utc", "-tvf"]).arg(&file).output().unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["-rw-r--r--", "0/0", "6", "2023-11-14", "22:13", "bundle/a.txt"]);
        assert_eq!((lines[1][2], lines[2][2], lines.len()), ("0", "1024", 3));
    }
}
