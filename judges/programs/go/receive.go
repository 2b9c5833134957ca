package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const pollFor = 100 * time.Millisecond

// receiving holds the members of a subscribe or collect request.
type receiving struct {
	Kind           string `json:"kind"`
	Expression     string `json:"expression"`
	SQL            bool   `json:"sql"`
	Ordered        bool   `json:"ordered"`
	Broadcast      bool   `json:"broadcast"`
	Start          string `json:"start"`
	Timestamp      string `json:"timestamp"`
	Failures       int32  `json:"failures"`
	RetryLevel     int    `json:"retry_level"`
	MaxReconsume   *int32 `json:"max_reconsume"`
	WithProperties bool   `json:"with_properties"`
	Handle         int    `json:"handle"`
	Deliveries     bool   `json:"deliveries"`
	SettleMs       int    `json:"settle_ms"`
}

// delivery is one message as the listener saw it.
type delivery struct {
	Digest     string            `json:"digest"`
	Size       int               `json:"size"`
	Broker     string            `json:"broker"`
	Queue      int               `json:"queue"`
	Offset     int64             `json:"offset"`
	Tag        string            `json:"tag"`
	Keys       string            `json:"keys"`
	Times      int32             `json:"times"`
	BornMs     int64             `json:"born_ms"`
	StoredMs   int64             `json:"stored_ms"`
	SeenMs     int64             `json:"seen_ms"`
	Failed     bool              `json:"failed"`
	Properties map[string]string `json:"properties,omitempty"`
}

// deliveries are all that one consumer saw, in that order.
type deliveries struct {
	sync.Mutex
	failures   int32
	properties bool
	seen       []delivery
	successes  int
}

// all notes messages; false when one of them is to be delivered again.
func (d *deliveries) all(messages []*primitive.MessageExt) bool {
	d.Lock()
	defer d.Unlock()
	whole := true
	for _, m := range messages {
		failed := m.ReconsumeTimes < d.failures
		if failed {
			whole = false
		} else {
			d.successes++
		}
		d.seen = append(d.seen, d.described(m, failed))
	}
	return whole
}

func (d *deliveries) described(m *primitive.MessageExt, failed bool) delivery {
	one := delivery{
		Digest: digest(m.Body), Size: len(m.Body), Offset: m.QueueOffset, Tag: m.GetTags(), Keys: m.GetKeys(),
		Times: m.ReconsumeTimes, BornMs: m.BornTimestamp, StoredMs: m.StoreTimestamp, SeenMs: time.Now().UnixMilli(), Failed: failed,
	}
	if m.Queue != nil {
		one.Broker, one.Queue = m.Queue.BrokerName, m.Queue.QueueId
	}
	if d.properties {
		one.Properties = m.GetProperties()
	}
	return one
}

func (d *deliveries) enough(asked *request) bool {
	d.Lock()
	defer d.Unlock()
	if asked.Deliveries {
		return len(d.seen) >= asked.Count
	}
	return d.successes >= asked.Count
}

func (d *deliveries) collect(asked *request) answer {
	deadline := time.Now().Add(time.Duration(asked.TimeoutMs) * time.Millisecond)
	for !d.enough(asked) && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(time.Duration(asked.SettleMs) * time.Millisecond)
	d.Lock()
	defer d.Unlock()
	return answer{"deliveries": append([]delivery{}, d.seen...)}
}

type receiver struct {
	deliveries *deliveries
	consumer   interface{ Shutdown() error }
}

// poller is the consumer that asks for messages, and the goroutine that does so.
type poller struct {
	consumer rocketmq.PullConsumer
	halted   atomic.Bool
	ended    chan struct{}
}

func (p *poller) run(seen *deliveries) {
	defer close(p.ended)
	for !p.halted.Load() {
		given, err := p.consumer.Poll(context.Background(), pollFor)
		if err != nil {
			continue
		}
		result := consumer.ConsumeSuccess
		if !seen.all(given.GetMsgList()) {
			result = consumer.ConsumeRetryLater
		}
		p.consumer.ACK(context.Background(), given, result)
	}
}

func (p *poller) Shutdown() error {
	p.halted.Store(true)
	<-p.ended
	return p.consumer.Shutdown()
}

type receivers struct {
	running map[int]receiver
	handles int
}

func newReceivers() *receivers { return &receivers{running: map[int]receiver{}} }

func (r *receivers) reset() {
	for _, one := range r.running {
		_ = one.consumer.Shutdown()
	}
	r.running = map[int]receiver{}
}

func (r *receivers) collect(asked *request) (answer, error) {
	one, known := r.running[asked.Handle]
	if !known {
		return nil, fmt.Errorf("no running consumer %d", asked.Handle)
	}
	return one.deliveries.collect(asked), nil
}

func (r *receivers) count(asked *request) (answer, error) {
	one, known := r.running[asked.Handle]
	if !known {
		return nil, fmt.Errorf("no running consumer %d", asked.Handle)
	}
	one.deliveries.Lock()
	defer one.deliveries.Unlock()
	return answer{"deliveries": len(one.deliveries.seen), "accepted": one.deliveries.successes}, nil
}

func (r *receivers) close(asked *request) (answer, error) {
	one, known := r.running[asked.Handle]
	if !known {
		return nil, fmt.Errorf("no running consumer %d", asked.Handle)
	}
	delete(r.running, asked.Handle)
	return answer{}, one.consumer.Shutdown()
}

func (r *receivers) subscribe(asked *request) (answer, error) {
	r.handles++
	seen := &deliveries{failures: asked.Failures, properties: asked.WithProperties}
	start := startPushing
	if asked.Kind == "lite" {
		start = startPolling
	}
	one, err := start(asked, r.handles, seen)
	if err != nil {
		return nil, err
	}
	r.running[r.handles] = receiver{seen, one}
	return answer{"handle": r.handles}, nil
}

func startPushing(asked *request, handle int, seen *deliveries) (interface{ Shutdown() error }, error) {
	one, err := rocketmq.NewPushConsumer(options(asked, handle)...)
	if err != nil {
		return nil, err
	}
	if err := one.Subscribe(asked.Topic, selector(asked), listener(asked, seen)); err != nil {
		return nil, err
	}
	return one, one.Start()
}

func startPolling(asked *request, handle int, seen *deliveries) (interface{ Shutdown() error }, error) {
	one, err := rocketmq.NewPullConsumer(options(asked, handle)...)
	if err != nil {
		return nil, err
	}
	if err := one.Subscribe(asked.Topic, selector(asked)); err != nil {
		return nil, err
	}
	if err := one.Start(); err != nil {
		return nil, err
	}
	running := &poller{consumer: one, ended: make(chan struct{})}
	go running.run(seen)
	return running, nil
}

func listener(asked *request, seen *deliveries) func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	ordered, level := asked.Ordered, asked.RetryLevel
	return func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if seen.all(messages) {
			return consumer.ConsumeSuccess, nil
		}
		if ordered {
			return consumer.SuspendCurrentQueueAMoment, nil
		}
		if concurrent, known := primitive.GetConcurrentlyCtx(ctx); known {
			concurrent.DelayLevelWhenNextConsume = level
		}
		return consumer.ConsumeRetryLater, nil
	}
}

func selector(asked *request) consumer.MessageSelector {
	kind := consumer.TAG
	if asked.SQL {
		kind = consumer.SQL92
	}
	return consumer.MessageSelector{Type: kind, Expression: asked.Expression}
}

func options(asked *request, handle int) []consumer.Option {
	instance := asked.Instance
	if instance == "" {
		instance = fmt.Sprintf("receiver-%d-%d", handle, os.Getpid())
	}
	model := consumer.Clustering
	if asked.Broadcast {
		model = consumer.BroadCasting
	}
	given := []consumer.Option{
		consumer.WithNameServer(asked.nameServers()),
		consumer.WithGroupName(asked.Group),
		consumer.WithCredentials(keys()),
		consumer.WithInstance(instance),
		consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(asked.Ordered),
		consumer.WithSuspendCurrentQueueTimeMillis(100 * time.Millisecond),
	}
	switch asked.Start {
	case "last":
		given = append(given, consumer.WithConsumeFromWhere(consumer.ConsumeFromLastOffset))
	case "timestamp":
		given = append(given, consumer.WithConsumeFromWhere(consumer.ConsumeFromTimestamp), consumer.WithConsumeTimestamp(asked.Timestamp))
	default:
		given = append(given, consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	}
	if asked.MaxReconsume != nil {
		given = append(given, consumer.WithMaxReconsumeTimes(*asked.MaxReconsume))
	}
	return given
}
