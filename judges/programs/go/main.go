// Command judge drives the stock Go client: one request a line on standard input, one answer a line on standard output,
// both JSON objects. The end of the input ends the process.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	answerMark  = "@answer "
	longestLine = 1 << 20
)

var errUnsupported = errors.New("the Go client cannot do this")

// request holds the members of every verb; an absent member keeps its zero value.
type request struct {
	Verb       string          `json:"verb"`
	NameServer string          `json:"name_server"`
	Topic      string          `json:"topic"`
	Group      string          `json:"group"`
	Instance   string          `json:"instance"`
	Properties json.RawMessage `json:"properties"`
	TimeoutMs  int             `json:"timeout_ms"`
	Count      int             `json:"count"`
	sending
	receiving
	producing
}

// nameServers are the addresses that the request gives, separated by semicolons.
func (r *request) nameServers() []string { return strings.Split(r.NameServer, ";") }

type answer map[string]any

func main() {
	rlog.SetLogLevel("error")
	senders := newSenders()
	receivers := newReceivers()
	producers := newProducers()
	verbs := map[string]func(*request) (answer, error){
		"send":      senders.send,
		"checks":    senders.checks,
		"subscribe": receivers.subscribe,
		"collect":   receivers.collect,
		"count":     receivers.count,
		"close":     receivers.close,
		"produce":   producers.produce,
		"progress":  producers.progress,
		"halt":      producers.halt,
		"reset": func(*request) (answer, error) {
			receivers.reset()
			senders.reset()
			producers.reset()
			return answer{}, nil
		},
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 0, 64<<10), longestLine)
	for lines.Scan() {
		reply(attempt(verbs, lines.Bytes()))
	}
}

func attempt(verbs map[string]func(*request) (answer, error), line []byte) answer {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{"error": err.Error()}
	}
	verb, known := verbs[asked.Verb]
	if !known {
		return answer{"unsupported": "no verb " + asked.Verb}
	}
	given, err := verb(&asked)
	if errors.Is(err, errUnsupported) {
		return answer{"unsupported": err.Error()}
	}
	if err != nil {
		return answer{"error": err.Error()}
	}
	return given
}

func reply(given answer) {
	text, err := json.Marshal(given)
	if err != nil {
		text = []byte(`{"error": "the answer cannot be written as JSON"}`)
	}
	fmt.Fprintf(os.Stdout, "%s%s\n", answerMark, text)
}
