package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	asyncWindow  = 64
	errorsKept   = 5
	wantProperty = "judge-outcome"
)

// sending holds the members of a send request.
type sending struct {
	Mode       string   `json:"mode"`
	Prefix     string   `json:"prefix"`
	First      int      `json:"first"`
	Size       int      `json:"size"`
	Tags       []string `json:"tags"`
	Keys       bool     `json:"keys"`
	Shards     int      `json:"shards"`
	Batch      int      `json:"batch"`
	DelayLevel int      `json:"delay_level"`
	Outcomes   []string `json:"outcomes"`
	Check      string   `json:"check"`
	PatienceMs int      `json:"patience_ms"`
}

// byShard sends a message with a sharding key to that queue, and others round robin.
type byShard struct{ others producer.QueueSelector }

func (s byShard) Select(m *primitive.Message, queues []*primitive.MessageQueue, last string) *primitive.MessageQueue {
	if shard, err := strconv.Atoi(m.GetShardingKey()); err == nil {
		return queues[shard%len(queues)]
	}
	return s.others.Select(m, queues, last)
}

// undecided decides a transaction as its message says and counts the broker's questions.
type undecided struct {
	count int32
	check atomic.Value
}

func state(outcome string) primitive.LocalTransactionState {
	switch outcome {
	case "", "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (u *undecided) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	return state(m.GetProperty(wantProperty))
}

func (u *undecided) CheckLocalTransaction(*primitive.MessageExt) primitive.LocalTransactionState {
	atomic.AddInt32(&u.count, 1)
	return state(u.check.Load().(string))
}

// tally is what became of every message of one request.
type tally struct {
	sync.Mutex
	start    time.Time
	statuses map[string]int
	queues   map[string]int
	failed   []int
	errors   []string
}

var statusNames = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
}

func (t *tally) told(first, count int, result *primitive.SendResult, err error) {
	t.Lock()
	defer t.Unlock()
	if err != nil {
		for index := first; index < first+count; index++ {
			t.failed = append(t.failed, index)
		}
		if len(t.errors) < errorsKept {
			t.errors = append(t.errors, err.Error())
		}
		return
	}
	if result == nil {
		return
	}
	t.statuses[statusNames[result.Status]] += count
	if result.MessageQueue != nil {
		t.queues[fmt.Sprintf("%s:%d", result.MessageQueue.BrokerName, result.MessageQueue.QueueId)] += count
	}
}

func (t *tally) answer() answer {
	t.Lock()
	defer t.Unlock()
	return answer{
		"statuses": t.statuses, "queues": t.queues, "failed": t.failed, "errors": t.errors,
		"elapsed_ms": time.Since(t.start).Milliseconds(),
	}
}

type senders struct {
	plain        map[string]rocketmq.Producer
	transactions map[string]rocketmq.TransactionProducer
	listeners    map[string]*undecided
	started      int
}

func newSenders() *senders {
	s := &senders{}
	s.reset()
	return s
}

func (s *senders) reset() {
	for _, one := range s.plain {
		_ = one.Shutdown()
	}
	for _, one := range s.transactions {
		_ = one.Shutdown()
	}
	s.plain = map[string]rocketmq.Producer{}
	s.transactions = map[string]rocketmq.TransactionProducer{}
	s.listeners = map[string]*undecided{}
}

func (s *senders) checks(asked *request) (answer, error) {
	listener, known := s.listeners[key(asked)]
	if !known {
		return answer{"checks": 0}, nil
	}
	return answer{"checks": atomic.LoadInt32(&listener.count)}, nil
}

func (s *senders) send(asked *request) (answer, error) {
	count := &tally{start: time.Now(), statuses: map[string]int{}, queues: map[string]int{}, failed: []int{}, errors: []string{}}
	if asked.Mode == "transaction" {
		one, err := s.transactional(asked)
		if err != nil {
			return nil, err
		}
		each(asked, 1, func(first int, messages []*primitive.Message) {
			result, err := one.SendMessageInTransaction(context.Background(), messages[0])
			if err != nil {
				count.told(first, 1, nil, err)
				return
			}
			count.told(first, 1, result.SendResult, nil)
		})
		return count.answer(), nil
	}
	one, err := s.producer(asked)
	if err != nil {
		return nil, err
	}
	return count.send(asked, one)
}

// send sends by the mode asked for and answers with the tally.
func (t *tally) send(asked *request, one rocketmq.Producer) (answer, error) {
	ctx := context.Background()
	batch := 1
	switch asked.Mode {
	case "batch":
		batch = asked.Batch
	case "oneway":
		each(asked, 1, func(first int, messages []*primitive.Message) {
			t.told(first, 1, nil, one.SendOneWay(ctx, messages...))
		})
		return t.answer(), nil
	case "async":
		return t.async(asked, one)
	case "sync", "ordered":
	default:
		return nil, fmt.Errorf("%w: send in mode %s", errUnsupported, asked.Mode)
	}
	each(asked, batch, func(first int, messages []*primitive.Message) {
		result, err := one.SendSync(ctx, messages...)
		t.told(first, len(messages), result, err)
	})
	return t.answer(), nil
}

func (t *tally) async(asked *request, one rocketmq.Producer) (answer, error) {
	window := make(chan struct{}, asyncWindow)
	var all sync.WaitGroup
	each(asked, 1, func(first int, messages []*primitive.Message) {
		window <- struct{}{}
		all.Add(1)
		done := func(_ context.Context, result *primitive.SendResult, err error) {
			t.told(first, 1, result, err)
			<-window
			all.Done()
		}
		if err := one.SendAsync(context.Background(), done, messages...); err != nil {
			done(nil, nil, err)
		}
	})
	finished := make(chan struct{})
	go func() { all.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(time.Duration(asked.PatienceMs) * time.Millisecond):
		t.told(-1, 1, nil, fmt.Errorf("not every callback came"))
	}
	return t.answer(), nil
}

// each makes the messages asked for, in groups of batch.
func each(asked *request, batch int, act func(first int, messages []*primitive.Message)) {
	end := asked.First + asked.Count
	for first := asked.First; first < end; first += batch {
		var messages []*primitive.Message
		for index := first; index < first+batch && index < end; index++ {
			messages = append(messages, message(asked, index))
		}
		act(first, messages)
	}
}

func message(asked *request, index int) *primitive.Message {
	m := primitive.NewMessage(asked.Topic, body(asked.Prefix, index, asked.Size))
	var properties map[string]string
	if json.Unmarshal(asked.Properties, &properties) == nil {
		for name, value := range properties {
			m.WithProperty(name, value)
		}
	}
	if len(asked.Tags) > 0 {
		m.WithTag(asked.Tags[index%len(asked.Tags)])
	}
	if asked.Keys {
		m.WithKeys([]string{fmt.Sprintf("%s-%d", asked.Prefix, index)})
	}
	if asked.DelayLevel > 0 {
		m.WithDelayTimeLevel(asked.DelayLevel)
	}
	if asked.Mode == "ordered" {
		m.WithShardingKey(strconv.Itoa(index % max(asked.Shards, 1)))
	}
	if asked.Mode == "transaction" {
		m.WithProperty(wantProperty, asked.Outcomes[index%len(asked.Outcomes)])
	}
	return m
}

func key(asked *request) string { return asked.NameServer + " " + asked.Group }

func (s *senders) options(asked *request) []producer.Option {
	s.started++
	return []producer.Option{
		producer.WithNameServer(asked.nameServers()),
		producer.WithGroupName(asked.Group),
		producer.WithCredentials(keys()),
		producer.WithInstanceName(fmt.Sprintf("sender-%d-%d", s.started, os.Getpid())),
		producer.WithRetry(2),
		producer.WithSendMsgTimeout(time.Duration(asked.TimeoutMs) * time.Millisecond),
		producer.WithQueueSelector(byShard{producer.NewRoundRobinQueueSelector()}),
	}
}

func (s *senders) producer(asked *request) (rocketmq.Producer, error) {
	if known := s.plain[key(asked)]; known != nil {
		return known, nil
	}
	one, err := rocketmq.NewProducer(s.options(asked)...)
	if err != nil {
		return nil, err
	}
	if err := one.Start(); err != nil {
		return nil, err
	}
	s.plain[key(asked)] = one
	return one, nil
}

func (s *senders) transactional(asked *request) (rocketmq.TransactionProducer, error) {
	listener := s.listeners[key(asked)]
	if listener == nil {
		listener = &undecided{}
		s.listeners[key(asked)] = listener
	}
	listener.check.Store(asked.Check)
	if known := s.transactions[key(asked)]; known != nil {
		return known, nil
	}
	one, err := rocketmq.NewTransactionProducer(listener, s.options(asked)...)
	if err != nil {
		return nil, err
	}
	if err := one.Start(); err != nil {
		return nil, err
	}
	s.transactions[key(asked)] = one
	return one, nil
}
