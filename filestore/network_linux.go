package filestore

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// networkMagic are the numbers statfs(2) gives for file systems that other machines have mounted too; v9fs shares those of a host with its guests.
var networkMagic = map[uint32]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.AFS_FS_MAGIC:     "AFS",
	unix.CODA_SUPER_MAGIC: "Coda",
	unix.NCP_SUPER_MAGIC:  "NCP",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.V9FS_MAGIC:       "9P",
	0x0bd00bd0:            "Lustre",
	0x01161970:            "GFS2",
	0x7461636f:            "OCFS2",
	0x47504653:            "GPFS",
	0x19830326:            "BeeGFS",
}

// networkFUSE are the types of FUSE file systems that are on a network; others, such as encrypted directories, are local.
var networkFUSE = []string{
	"virtiofs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs", "fuse.goofys", "fuse.gcsfuse", "fuse.rclone", "fuse.juicefs",
	"fuse.davfs2", "fuse.curlftpfs", "fuse.mount-s3",
}

// networkType names the network file system that path is on, "" if it is none that we know.
func networkType(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	// The type of f_type differs between architectures; the numbers have 32 bits.
	magic := uint32(st.Type)
	if magic != unix.FUSE_SUPER_MAGIC {
		return networkMagic[magic], nil
	}
	if kind := mountType(path); slices.Contains(networkFUSE, kind) {
		return kind, nil
	}
	return "", nil
}

// mountType returns the type of the file system that path is on, as proc_pid_mountinfo(5) has it behind the lone hyphen.
func mountType(path string) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return ""
	}
	dev := fmt.Sprintf("%d:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))) //nolint:unconvert // st.Dev has 32 bits elsewhere
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		mount, source, _ := strings.Cut(line, " - ")
		if f, s := strings.Fields(mount), strings.Fields(source); len(f) > 2 && f[2] == dev && len(s) > 0 {
			return s[0]
		}
	}
	return ""
}
