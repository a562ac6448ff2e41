//! What a namespace's kernel has counted of its connections.

use sandbox::Namespace;

/// `TCPSynRetrans`: first packets of connections that had to be sent again, because the first one was lost.
pub fn sent_again(client: &Namespace) -> u64 {
    let text = client.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = columns.find(|(name, _)| *name == "TCPSynRetrans").unwrap();
    value.parse().unwrap()
}
