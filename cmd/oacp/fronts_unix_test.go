//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/internal/testing/terminal"
	"github.com/oacp-go/oacp/schema"
)

// A front is a way to answer a message: a real program, through which an agent or a person does so.
type front struct {
	name string
	// agent is who acts: codex, or the person anna.
	agent schema.AgentName
	// open starts the program. The message waits in the inbox.
	open func(*scene) answering
}

// An answering is a program that was opened. It answers once, and returns the code of the error, empty for none, or the text
// of the error where the program shows no code.
type answering func(an attempt) (code, text string)

// An attempt is what to answer.
type attempt struct {
	text string
	// choose is a choice to take, without acknowledging the message; the text is then empty.
	choose string
	// asks is set for a question back. Otherwise the message leaves the inbox with the answer.
	asks bool
}

// fronts are the ways in.
var fronts = []front{
	{"command line", "codex", openCommandLine}, {"person's command line", "anna", openCommandLine},
	{"decide", "anna", openDecide}, {"MCP", "codex", openMCP}, {"web", "anna", openWeb},
	{"Gas City", "codex", openGasCity}, {"output of a turn", "codex", openTurn},
}

// A scene is a workspace in which claude has asked something.
type scene struct {
	*session
	t     *testing.T
	agent schema.AgentName
	// id is that of the message.
	id string
	// variables are added to the environment of the program.
	variables []string
}

// command is a command with the environment of the scene.
func (s *scene) command(name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(s.t.Context(), name, args...)
	command.Dir, command.Env = s.Dir, append(os.Environ(), append(s.environment(), s.variables...)...)
	return command
}

func (s *scene) environment() []string {
	return []string{"OACP_HOME=" + s.env["OACP_HOME"], "OACP_WORKSPACE=" + s.Dir, "OACP_AGENT="}
}

// fatal ends the test if there is an error.
func (s *scene) fatal(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func openCommandLine(s *scene) answering {
	return func(an attempt) (code, text string) {
		args := []string{"--as-person", "reply", s.id, "--from", string(s.agent), "--json"}
		if an.text != "" {
			args = append(args, "--body", an.text)
		}
		if s.agent == "codex" {
			args = args[1:]
		}
		switch {
		case an.asks:
			args = append(args, "--type", "question")
		case an.choose != "":
			args = append(args, "--choose", an.choose)
		default:
			args = append(args, "--ack")
		}
		out, _ := s.command("oacp", args...).Output() // the output has the error
		var answer struct{ Error, Code string }
		if err := json.Unmarshal(out, &answer); err != nil {
			s.t.Fatalf("%v in %s", err, out)
		}
		return answer.Code, answer.Error
	}
}

func openDecide(s *scene) answering {
	term := terminal.Start(s.t, terminal.Options{
		Command: []string{"oacp", "decide", "--agent", string(s.agent)}, Dir: s.Dir, Env: append(s.environment(), s.variables...), Columns: 200,
	})
	term.Await("quit>")
	return func(an attempt) (code, text string) {
		if an.choose != "" {
			term.Say(an.choose)
		} else {
			term.Press("t", "Enter")
		}
		if an.choose == "" && term.AwaitAny("text>", "nothing is sent") == "text>" {
			term.Say(an.text)
		}
		switch term.AwaitAny("nothing is sent", "not sent: ", "nothing more waits") {
		case "nothing more waits":
			return "", ""
		default:
			return "?", strings.Join(strings.Fields(term.Screen()), " ")
		}
	}
}

func openMCP(s *scene) answering {
	command := s.command("oacp-mcp", "--agent", string(s.agent))
	client := connectTools(s.t, &mcp.CommandTransport{Command: command})
	s.t.Cleanup(func() { _ = client.session.Close() })
	return func(an attempt) (code, text string) {
		arguments := map[string]any{"message_id": s.id, "body": an.text, "acknowledge": !an.asks && an.choose == "", "choose": an.choose}
		if an.asks {
			arguments["type"] = "question"
		}
		answer, err := client.session.CallTool(s.t.Context(), &mcp.CallToolParams{Name: "reply_message", Arguments: arguments})
		s.fatal(err)
		text = answer.Content[0].(*mcp.TextContent).Text
		if !answer.IsError {
			return "", text
		}
		code, _, _ = strings.Cut(text, ":")
		return code, text
	}
}

var hiddenToken = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

func openWeb(s *scene) answering {
	s.must(s.t, "send", "--from", "gemini", "--to", string(s.agent), "--type", "question", "--subject", "A page with a form", "--body", "?") // which it needs to post
	ctx, stop := context.WithCancel(s.t.Context())
	command := s.command("oacp-web", "--agent", string(s.agent))
	out, err := command.StdoutPipe()
	s.fatal(err)
	s.fatal(command.Start())
	s.t.Cleanup(func() {
		stop()
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	lines := bufio.NewReader(out)
	login, err := lines.ReadString('\n')
	s.fatal(err)
	jar, err := cookiejar.New(nil)
	s.fatal(err)
	browser := &http.Client{Jar: jar}
	base, err := url.Parse(strings.TrimSpace(login))
	s.fatal(err)
	page := func(request *http.Request, err error) (status int, text string) {
		s.fatal(err)
		answer, err := browser.Do(request)
		s.fatal(err)
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		s.fatal(err)
		return answer.StatusCode, string(data)
	}
	page(http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil))
	_, shown := page(http.NewRequestWithContext(ctx, http.MethodGet, base.Scheme+"://"+base.Host+"/m/"+s.id, nil))
	_, home := page(http.NewRequestWithContext(ctx, http.MethodGet, base.Scheme+"://"+base.Host+"/", nil))
	token := hiddenToken.FindStringSubmatch(shown + home)
	return func(an attempt) (code, text string) {
		form := url.Values{"text": {an.text}, "choose": {an.choose}}
		if len(token) > 1 {
			form.Set("csrf", token[1])
		}
		if an.asks {
			form.Set("choose", "ask")
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, base.Scheme+"://"+base.Host+"/m/"+s.id+"/reply", strings.NewReader(form.Encode()))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		status, text := page(request, err)
		if status == http.StatusOK {
			return "", text
		}
		return "?", fmt.Sprint(status, " ", text)
	}
}

func openGasCity(s *scene) answering {
	city := func(stdin string, args ...string) error {
		command := s.command("oacp-gascity", args...)
		command.Stdin = strings.NewReader(stdin)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		if err := command.Run(); err != nil {
			return fmt.Errorf("%w: %s", err, stderr.String())
		}
		return nil
	}
	return func(an attempt) (code, text string) {
		subject := ""
		if an.asks {
			subject = "What?"
		}
		in, err := json.Marshal(map[string]string{"from": string(s.agent), "subject": subject, "body": an.text})
		s.fatal(err)
		if err = city(string(in), "reply", s.id); err == nil && !an.asks {
			err = city("", "archive", s.id)
		}
		if err != nil {
			return "?", err.Error()
		}
		return "", ""
	}
}

// openTurn begins a turn that waits until it may end. Its output is the answer.
func openTurn(s *scene) answering {
	end := s.beginTurn()
	return func(an attempt) (code, text string) {
		out, err := end(an.text)
		if err != nil {
			return "?", fmt.Sprint(err, out)
		}
		return "", out
	}
}

// beginTurn begins a turn. It returns a function that gives the turn its output, and waits for its end.
func (s *scene) beginTurn() (end func(text string) (out string, err error)) {
	folder := s.t.TempDir()
	begun, gate := filepath.Join(folder, "begun"), filepath.Join(folder, "gate")
	for _, fifo := range []string{begun, gate} {
		s.fatal(exec.CommandContext(s.t.Context(), "mkfifo", fifo).Run())
	}
	command := s.command("oacp", "run", "--agent", string(s.agent), "--once", "--reply", "--json", "--", "sh", "-c", `echo >"$1"; cat "$2"`, "sh", begun, gate)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	s.fatal(command.Start())
	ended := make(chan error, 1)
	go func() {
		ended <- command.Wait()
		if file, err := os.OpenFile(begun, os.O_RDWR, 0); err == nil { // no turn has begun
			_, _ = file.WriteString("none\n")
		}
	}()
	first, err := os.ReadFile(begun)
	s.fatal(err)
	return func(text string) (string, error) {
		if !strings.HasPrefix(string(first), "none") {
			s.fatal(os.WriteFile(gate, []byte(text), 0))
		}
		err := <-ended
		return out.String(), err
	}
}
