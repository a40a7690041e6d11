package ash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/oacp-go/oacp/ash"
)

// greeter is a bridge's agent: it runs one turn for each query.
type greeter struct{}

func (greeter) Query(_ context.Context, query ash.Query, send ash.Send) error {
	data, err := json.Marshal(map[string]string{"type": "result", "result": "hello, " + query.Prompt})
	if err != nil {
		return err
	}
	return send(data)
}

func (greeter) Resume(context.Context, string, ash.Send) error { return nil }

// A bridge serves its agent on a socket; a host connects to it and queries the agent.
func Example() {
	ctx := context.Background()
	server, err := ash.Listen(ash.NewSocketPath(), greeter{})
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- server.Serve(ctx) }()

	client, err := ash.Connect(ctx, server.SocketPath())
	if err != nil {
		log.Fatal(err)
	}
	for data, err := range client.Query(ctx, ash.Query{Prompt: "world", SessionID: "s1"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(data))
	}
	fmt.Println(client.Shutdown(ctx), <-served)
	// Output:
	// {"result":"hello, world","type":"result"}
	// <nil> <nil>
}
