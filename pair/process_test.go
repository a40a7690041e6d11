package pair

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-helper" {
		if err := helper(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Otherwise every process under the race detector takes a second to exit.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := memoryfolder.Use(); err != nil {
		panic(err)
	}
	check.Overlap()
	os.Exit(m.Run())
}

func helperProof(t *testing.T, arguments ...string) string {
	t.Helper()
	words := append([]string{os.Args[0], "-helper"}, arguments...)
	for i, word := range words {
		words[i] = "'" + word + "'"
	}
	return strings.Join(words, " ")
}

func helper(arguments []string) error {
	switch arguments[0] {
	case "exists":
		if _, err := os.Stat(arguments[1]); err != nil {
			return fmt.Errorf("there is no file %s", arguments[1])
		}
		return nil
	case "hang":
		select {}
	case "drive":
		return drive(arguments[1], arguments[2], arguments[3])
	case "create":
		s, err := Create(arguments[1], arguments[2], Settings{Prompt: "x"}, Options{})
		if err != nil {
			return err
		}
		fmt.Println(s.Place().ID)
		return s.Close()
	}
	return errors.New("unknown helper " + arguments[0])
}

// drive makes a run with scripted agents, or resumes the existing one. It prints a line for every
// entry, so that the reader can choose when to kill it. A limit of the size of files simulates a
// full disk.
func drive(root, repository, limit string) error {
	if err := limitFiles(limit); err != nil {
		return err
	}
	options := Options{
		NewDriver: scripted(steady).NewDriver,
		Observe:   func(e Entry) { fmt.Println(e.Type) },
	}
	var s *Session
	log, err := bridge.Selector{Root: root, Repository: repository}.Select()
	if err == nil {
		err = log.Err()
	}
	if err == nil {
		s, err = Resume(log.Run, options)
	}
	if errors.Is(err, bridge.ErrNoRun) || errors.Is(err, ErrNeverBegun) {
		s, err = Create(root, repository, Settings{Prompt: "three steps", Proof: "true"}, options)
	}
	if err != nil {
		return err
	}
	return errors.Join(s.Run(context.Background()), s.Close())
}

// steady is a pair of agents that depend on their prompts only: each iteration says the same, and
// the third passes.
func steady(c call) (string, error) {
	for range 3 {
		c.observe(agent.Event{Text: "working"})
	}
	iteration := ""
	for _, variable := range c.request.Env {
		if number, ok := strings.CutPrefix(variable, "OACP_ITERATION="); ok {
			iteration = number
		}
	}
	if !strings.Contains(c.request.Prompt, "three steps") {
		return "", errors.New("the prompt lacks the task")
	}
	if strings.Contains(c.request.Prompt, "You are codex and work") {
		return "step " + iteration + "\nDONE", nil
	}
	if iteration == "3" {
		return "good\nPASS", nil
	}
	return "more\nFAIL", nil
}

// undisturbed are the records of a run of steady agents.
var undisturbed = []string{
	"0 task user>codex three steps",
	"1 result codex>claude step 1|DONE", "1 signal codex>claude DONE in iteration 1DONE",
	"1 review claude>codex more|FAIL", "1 signal claude>codex FAIL in iteration 1FAIL",
	"1 review codex>claude more|FAIL", "1 signal codex>claude FAIL in iteration 1FAIL",
	"2 result codex>claude step 2|DONE", "2 signal codex>claude DONE in iteration 2DONE",
	"2 review claude>codex more|FAIL||(said 2 times)", "2 signal claude>codex FAIL in iteration 2FAIL",
	"2 review codex>claude more|FAIL||(said 2 times)", "2 signal codex>claude FAIL in iteration 2FAIL",
	"3 result codex>claude step 3|DONE", "3 signal codex>claude DONE in iteration 3DONE",
	"3 review claude>codex good|PASS", "3 signal claude>codex PASS in iteration 3PASS",
	"3 review codex>claude good|PASS", "3 signal codex>claude PASS in iteration 3PASS",
}

// TestKill kills the process at random entries and resumes until the run is done. However often it
// is killed, the run ends with the same result.
func TestKill(t *testing.T) {
	t.Parallel()
	for seed := range uint64(killRounds(t)) {
		random := rand.New(rand.NewPCG(seed, 1))
		root, repository := t.TempDir(), t.TempDir()
		kills := 0
		for ; ; kills++ {
			if kills > 500 {
				t.Fatal("the run does not end")
			}
			if driveUntil(t, root, repository, random.IntN(20)) {
				break
			}
		}
		checkUndisturbed(t, root, repository, fmt.Sprintf("seed %d, %d kills", seed, kills))
	}
}

// killRounds is how many runs are killed; PAIR_KILL_ROUNDS asks for more.
func killRounds(t *testing.T) int {
	text := os.Getenv("PAIR_KILL_ROUNDS")
	if text == "" {
		return 4
	}
	rounds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return rounds
}

// driveUntil drives the run for a number of entries, and then kills the process.
func driveUntil(t *testing.T, root, repository string, entries int) (done bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-helper", "drive", root, repository, "")
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(out)
	for entries > 0 && scanner.Scan() {
		entries--
	}
	if entries == 0 {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for scanner.Scan() {
	}
	err = cmd.Wait()
	if problem.Len() > 0 {
		t.Errorf("the process ended with %v:\n%s", err, problem.String())
	}
	return err == nil
}

func checkUndisturbed(t *testing.T, root, repository, when string) {
	t.Helper()
	log, err := bridge.Selector{Root: root, Repository: repository}.Select()
	if err != nil {
		t.Fatal(err)
	}
	run := log.Run
	s, err := Resume(run, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m := s.Manifest(); m.State != Complete || m.CurrentIteration != 3 {
		t.Errorf("%s: state %s in iteration %d, want completed in 3", when, m.State, m.CurrentIteration)
	}
	if got, want := strings.Join(records(t, s), "\n"), strings.Join(undisturbed, "\n"); got != want {
		t.Errorf("%s: records\n%s\nwant\n%s", when, got, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullDisk checks that a run that stopped because the disk was full, at any step, can be
// resumed later and ends with the same result.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if !canLimitFiles {
		t.Skip("this system has no limit on the size of files")
	}
	root, repository := t.TempDir(), t.TempDir()
	failures := 0
	for limit := 500; ; limit += limit / 8 {
		cmd := exec.Command(os.Args[0], "-helper", "drive", root, repository, strconv.Itoa(limit))
		if output, err := cmd.CombinedOutput(); err == nil {
			break
		} else if !strings.Contains(string(output), "too large") {
			t.Fatalf("limit %d: %v\n%s", limit, err, output)
		}
		if failures++; failures > 500 {
			t.Fatal("the run does not end")
		}
	}
	if failures < 3 {
		t.Errorf("the disk was full %d times, want more", failures)
	}
	checkUndisturbed(t, root, repository, fmt.Sprintf("%d full disks", failures))
}

// TestRunIDs checks that processes that make runs at the same time get one each.
func TestRunIDs(t *testing.T) {
	t.Parallel()
	const processes = 6
	root, repository := t.TempDir(), t.TempDir()
	var commands []*exec.Cmd
	var outputs [processes]strings.Builder
	for i := range processes {
		cmd := exec.Command(os.Args[0], "-helper", "create", root, repository)
		cmd.Stdout = &outputs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		commands = append(commands, cmd)
	}
	seen := make(map[string]bool)
	for i, cmd := range commands {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		seen[outputs[i].String()] = true
	}
	if len(seen) != processes {
		t.Errorf("%d processes made the runs %v", processes, seen)
	}
	var one json.Number
	for id := range seen {
		if err := json.Unmarshal([]byte(id), &one); err != nil {
			t.Errorf("%q is not the number of a run", id)
		}
	}
}
