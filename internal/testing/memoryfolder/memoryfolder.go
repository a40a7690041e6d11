// Package memoryfolder has tests make their temporary folders in memory. The tests wait for the disk
// longer than for everything else: each message is synced to it.
package memoryfolder
