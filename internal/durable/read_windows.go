package durable

import "time"

func (d *Dir) read(buffer []byte, name string, limit int64) ([]byte, time.Time, error) {
	file, err := d.root.Open(name)
	if err != nil {
		return buffer, time.Time{}, err
	}
	defer file.Close() // opened for reading: closing cannot lose anything
	info, err := file.Stat()
	if err != nil {
		return buffer, time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return buffer, info.ModTime(), ErrNotRegular
	}
	data, err := readAll(buffer, info.Size(), limit, file.Read)
	return data, info.ModTime(), err
}
