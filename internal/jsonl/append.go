// Package jsonl encodes lines of JSON, appends them to a file so that a crash or a full disk never damages another line,
// and reads complete lines back.
//
// A file of lines may end in a partial line: a writer died midway, or is still writing. Readers
// ignore it, and a writer calls Seal before it appends. Writers open the file with O_APPEND and
// hold a lock; the package takes none.
package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
)

// File is the part of *os.File that appending needs; tests inject faults through it.
type File interface {
	io.Writer
	io.ReaderAt
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
}

// Encode returns the value as a line of JSON with its newline. Unlike json.Marshal, it leaves <, > and & readable.
func Encode(value any) ([]byte, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return line.Bytes(), err
}

// Append writes lines, each with its newline, with one call of Write and without a sync. If the
// write fails midway, the complete lines that it wrote stay, and Append removes the partial line
// after them.
func Append(file File, lines []byte) error {
	start, err := size(file)
	if err != nil {
		return err
	}
	written, err := file.Write(lines)
	if err == nil {
		return nil
	}
	kept := bytes.LastIndexByte(lines[:written], '\n') + 1
	return errors.Join(err, cut(file, start+int64(written), start+int64(kept)))
}

// Seal ends a partial last line with a newline, so that the next line does not continue it. Readers
// skip the line, or use it if only its newline was missing.
func Seal(file File) error {
	end, err := size(file)
	if err != nil || end == 0 {
		return err
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], end-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.Write([]byte("\n"))
	return err
}

func size(file File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// cut shortens the file from end bytes to the given size. If the file does not end there, a writer
// without the lock has appended to it: cut removes nothing, and readers skip the partial line.
func cut(file File, end, to int64) error {
	if end == to {
		return nil
	}
	now, err := size(file)
	if err != nil || now != end {
		return err
	}
	return file.Truncate(to)
}
