package convert

import "io/fs"

// stamp tells a file from the one that had its name before. Times are nanoseconds since 1970.
type stamp struct {
	size     int64
	modified int64  // when it was last written
	changed  int64  // when anything about it changed, its name too; 0 where the system does not tell
	inode    uint64 // 0 where the system does not tell
}

func stampOf(info fs.FileInfo) stamp {
	inode, changed := detailsOf(info)
	return stamp{info.Size(), info.ModTime().UnixNano(), changed, inode}
}
