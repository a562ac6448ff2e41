//! What could not be set, in words for the operator.

use std::fmt;
use std::io::ErrorKind;

use kernel::sysctl::SysctlError;

use super::file::File;
use super::plan::Write;

#[derive(Debug)]
pub(super) struct Undone {
    pub(super) write: Write,
    pub(super) error: SysctlError,
}

impl Undone {
    /// A runtime that mounts /sys read-only even for privileged containers, which cannot be changed from inside.
    pub(super) fn is_read_only_sys(&self) -> bool {
        self.write.file == File::ConntrackBuckets && matches!(self.error, SysctlError::ReadOnly { .. })
    }

    /// In a network namespace that is not the first one the kernel refuses changes of what all of them share.
    fn belongs_to_first_namespace(&self) -> bool {
        match &self.error {
            SysctlError::Locked { .. } => true,
            SysctlError::Write { source, .. } => {
                self.write.file == File::ConntrackBuckets && source.kind() == ErrorKind::Unsupported
            }
            _ => false,
        }
    }

    /// No right that this process could be given would change it.
    pub(super) fn is_beyond_reach(&self) -> bool {
        self.is_read_only_sys() || self.belongs_to_first_namespace()
    }

    pub(super) fn log(&self) {
        if self.is_beyond_reach() {
            tracing::warn!("{self}");
        } else {
            tracing::error!("{self}");
        }
    }

    fn advice(&self) -> &'static str {
        match (&self.error, self.write.file) {
            _ if self.belongs_to_first_namespace() => {
                "the kernel allows this only in the initial network namespace; set it there, or use 0 to leave it \
                 unchanged"
            }
            (SysctlError::Absent { .. }, File::OomScoreAdj) => "is /proc mounted?",
            (SysctlError::Absent { .. }, _) => "the kernel does not have it; load nf_conntrack",
            (SysctlError::ReadOnly { .. }, _) => {
                "it is mounted read-only; run kube-proxy --init-only in a privileged init container, or set it on the \
                 host"
            }
            (SysctlError::Write { source, .. }, File::OomScoreAdj)
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                "a lower score needs the capability SYS_RESOURCE"
            }
            (SysctlError::Write { source, .. }, _) if source.kind() == ErrorKind::PermissionDenied => {
                "this needs root; run kube-proxy --init-only in a privileged init container, or set it on the host"
            }
            _ => "",
        }
    }
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write { file, value, found } = self.write;
        write!(f, "Failed to set {} to {value} for {}", file.path(), file.setting())?;
        if let Some(found) = found {
            write!(f, "; it stays at {found}")?;
        }
        match &self.error {
            SysctlError::Read { source, .. } | SysctlError::Write { source, .. } => write!(f, ": {source}")?,
            SysctlError::Absent { .. } | SysctlError::ReadOnly { .. } | SysctlError::Locked { .. } => {}
        }
        match self.advice() {
            "" => Ok(()),
            advice => write!(f, "; {advice}"),
        }
    }
}
