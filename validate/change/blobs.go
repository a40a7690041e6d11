package change

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// An object is what git knows of an object; its kind is empty if there is none.
type object struct {
	id, kind string
	size     int64
}

// objects looks objects up by what git calls them.
func (c *check) objects(ctx context.Context, specs []string) ([]object, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	out, err := c.git.RunInput(ctx, strings.NewReader(strings.Join(specs, "\n")+"\n"), "cat-file", "--batch-check")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(specs) {
		return nil, fmt.Errorf("git cat-file printed %d lines for %d objects", len(lines), len(specs))
	}
	found := make([]object, len(specs))
	for i, line := range lines {
		words := strings.Split(line, " ")
		if strings.HasSuffix(line, " missing") || len(words) != 3 {
			continue
		}
		size, err := strconv.ParseInt(words[2], 10, 64)
		if err == nil {
			found[i] = object{words[0], words[1], size}
		}
	}
	return found, nil
}

// blobs reads objects one after the other, and none that is too large for a message.
type blobs struct {
	objects []object
	err     error
	at      int

	ctx     context.Context
	args    []string
	command *exec.Cmd
	stderr  strings.Builder
	out     *bufio.Reader
}

// openBlobs begins to read the objects. Errors come with the first call of next.
func (c *check) openBlobs(ctx context.Context, ids []string) *blobs {
	b := &blobs{ctx: ctx, args: []string{"cat-file", "--batch"}}
	if b.objects, b.err = c.objects(ctx, ids); b.err != nil || len(ids) == 0 {
		return b
	}
	var wanted strings.Builder
	for _, o := range b.objects {
		if o.readable() {
			wanted.WriteString(o.id + "\n")
		}
	}
	b.command = c.git.Command(ctx, b.args...)
	b.command.Stdin, b.command.Stderr = strings.NewReader(wanted.String()), &b.stderr
	pipe, err := b.command.StdoutPipe()
	if err == nil {
		err = b.command.Start()
	}
	if err != nil {
		b.command, b.err = nil, git.Failure(ctx, err, b.args, nil)
		return b
	}
	b.out = bufio.NewReader(pipe)
	return b
}

func (o object) readable() bool { return o.kind == "blob" && o.size <= schema.MaxFileSize }

// next returns the content of the next object, or what is wrong with it.
func (b *blobs) next() (data []byte, problem string, err error) {
	if b.err != nil {
		return nil, "", b.err
	}
	o := b.objects[b.at]
	b.at++
	switch {
	case o.kind == "":
		return nil, "", errors.New("git lacks an object of the change: run git fsck")
	case !o.readable():
		return nil, fmt.Sprintf("the file has %d bytes; a message has at most %d", o.size, schema.MaxFileSize), nil
	}
	header, err := b.out.ReadString('\n')
	if err != nil || header != fmt.Sprintf("%s %s %d\n", o.id, o.kind, o.size) {
		return nil, "", fmt.Errorf("git cat-file printed %.100q: %w", header, errors.Join(err, io.ErrUnexpectedEOF))
	}
	data = make([]byte, o.size+1) // and a line feed
	if _, err := io.ReadFull(b.out, data); err != nil {
		return nil, "", fmt.Errorf("reading from git cat-file: %w", err)
	}
	return data[:o.size], "", nil
}

// close ends the program, which has nothing to do once everything was read.
func (b *blobs) close() error {
	if b.command == nil {
		return b.err
	}
	_, _ = io.Copy(io.Discard, b.out) // after an error, it may still print
	return git.Failure(b.ctx, b.command.Wait(), b.args, []byte(b.stderr.String()))
}

// removedIDs returns the ids of the messages that the change takes out of outboxes, with their object
// ids.
func (c *check) removedIDs(ctx context.Context, moved moves) (map[schema.ID]string, error) {
	var ids []string
	for _, e := range c.entries {
		if e.status == 'D' && e.box == schema.Outbox && isFile(e.oldMode) && !moved.within(e) {
			ids = append(ids, e.before)
		}
	}
	removed := make(map[schema.ID]string)
	blobs := c.openBlobs(ctx, ids)
	for _, id := range ids {
		data, problem, err := blobs.next()
		if err != nil {
			return nil, errors.Join(err, blobs.close())
		}
		if m, _ := validate.Decode(data); problem == "" && m != nil && m.ID != "" {
			removed[schema.ID(strings.Clone(string(m.ID)))] = id
		}
	}
	return removed, blobs.close()
}
