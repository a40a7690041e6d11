// Package memoryfolder lets tests make their temporary folders in memory. On a disk, tests would mostly wait
// for it, because each message is synced.
package memoryfolder
