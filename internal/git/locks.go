package git

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

const (
	// LockAge is the age at which a lock of git is stale: git holds a lock only for milliseconds, so its process has
	// died.
	LockAge = 10 * time.Second
	// maintenanceAge is the same for the locks of git gc and git maintenance, which may run for hours. Nothing else needs
	// these locks.
	maintenanceAge = 24 * time.Hour
	// lockSuffix ends the names of git's locks. No ref may have such a name.
	lockSuffix = ".lock"
)

// RemoveStaleLocks removes the stale locks of git in the repository in a folder, and returns them and the young ones, as
// paths below the root. Stale locks are older than LockAge, those of git's maintenance than a day, or have a time that far
// in the future. It ignores the lock of the index and those of worktrees, which belong to users who work in the repository
// by hand.
func RemoveStaleLocks(root *os.Root, dir string, now time.Time) (stale, young []string, err error) {
	err = fs.WalkDir(root.FS(), dir, func(name string, entry fs.DirEntry, err error) error {
		below := strings.TrimPrefix(name, dir+"/")
		if err == nil && entry.IsDir() && (below == "worktrees" || path.Dir(below) == "objects" && len(path.Base(below)) == 2) {
			return fs.SkipDir // worktrees of users, and objects by the beginnings of their names
		}
		if err == nil && strings.HasSuffix(name, lockSuffix) && below != "index"+lockSuffix && entry.Type().IsRegular() {
			var info fs.FileInfo
			limit, isMaintenance := LockAge, strings.HasPrefix(below, "objects/") || strings.HasPrefix(below, "gc.")
			if isMaintenance {
				limit = maintenanceAge
			}
			if info, err = entry.Info(); err == nil && now.Sub(info.ModTime()).Abs() >= limit {
				stale = append(stale, name)
			} else if err == nil && !isMaintenance {
				young = append(young, name)
			}
		}
		if errors.Is(err, fs.ErrNotExist) && name != dir {
			return nil // its process has just removed it
		}
		return err
	})
	for _, name := range stale {
		if removeErr := root.Remove(name); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return stale, young, err
}

// RemoveBrokenRefs removes the refs of a repository that do not hold the name of an object, such as after a power failure,
// and returns their paths below the root.
func RemoveBrokenRefs(root *os.Root, dir string) (removed []string) {
	_ = fs.WalkDir(root.FS(), dir+"/refs", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(name, lockSuffix) {
			return nil
		}
		data, err := root.ReadFile(name)
		object := strings.TrimSpace(string(data))
		_, notHex := hex.DecodeString(object)
		if err == nil && (len(object) < 40 || notHex != nil) && !strings.HasPrefix(object, "ref: ") {
			if root.Remove(name) == nil {
				removed = append(removed, name)
			}
		}
		return nil
	})
	return removed
}
