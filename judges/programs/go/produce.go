package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const afterAFailure = 20 * time.Millisecond

// producing holds the members of a produce request that no other has.
type producing struct {
	PauseMs int `json:"pause_ms"`
	Retries int `json:"retries"`
}

// producers send by themselves, one message after the other, until they are halted.
type producers struct {
	running map[int]*running
	handles int
}

// running is one of them: where each message is that was acknowledged, and which were not.
type running struct {
	sync.Mutex
	asked    request
	producer rocketmq.Producer
	halted   atomic.Bool
	ended    chan struct{}
	acks     [][]any
	failed   []int
	errors   []string
}

func newProducers() *producers { return &producers{running: map[int]*running{}} }

func (p *producers) reset() {
	for _, one := range p.running {
		one.halt()
	}
	p.running = map[int]*running{}
}

func (p *producers) produce(asked *request) (answer, error) {
	p.handles++
	given, err := rocketmq.NewProducer(
		producer.WithNameServer(asked.nameServers()),
		producer.WithGroupName(asked.Group),
		producer.WithInstanceName(fmt.Sprintf("producer-%d-%d", p.handles, os.Getpid())),
		producer.WithRetry(asked.Retries),
		producer.WithSendMsgTimeout(time.Duration(asked.TimeoutMs)*time.Millisecond),
		producer.WithQueueSelector(byShard{producer.NewRoundRobinQueueSelector()}),
	)
	if err != nil {
		return nil, err
	}
	if err := given.Start(); err != nil {
		return nil, err
	}
	one := &running{asked: *asked, producer: given, ended: make(chan struct{}), acks: [][]any{}, failed: []int{}, errors: []string{}}
	if asked.Shards > 0 {
		one.asked.Mode = "ordered"
	}
	p.running[p.handles] = one
	go one.run()
	return answer{"handle": p.handles}, nil
}

func (p *producers) progress(asked *request) (answer, error) {
	one, known := p.running[asked.Handle]
	if !known {
		return nil, fmt.Errorf("no running producer %d", asked.Handle)
	}
	one.Lock()
	defer one.Unlock()
	return answer{"acknowledged": len(one.acks), "failed": len(one.failed)}, nil
}

func (p *producers) halt(asked *request) (answer, error) {
	one, known := p.running[asked.Handle]
	if !known {
		return nil, fmt.Errorf("no running producer %d", asked.Handle)
	}
	delete(p.running, asked.Handle)
	one.halt()
	return answer{"acks": one.acks, "failed": one.failed, "errors": one.errors}, nil
}

func (r *running) halt() {
	r.halted.Store(true)
	<-r.ended
	_ = r.producer.Shutdown()
}

func (r *running) run() {
	defer close(r.ended)
	pause := time.Duration(r.asked.PauseMs) * time.Millisecond
	for index := 0; !r.halted.Load(); index++ {
		result, err := r.producer.SendSync(context.Background(), message(&r.asked, index))
		if err == nil && result.Status != primitive.SendOK {
			err = errors.New(statusNames[result.Status])
		}
		if r.told(index, result, err) {
			time.Sleep(pause)
		} else {
			time.Sleep(afterAFailure)
		}
	}
}

func (r *running) told(index int, result *primitive.SendResult, err error) bool {
	r.Lock()
	defer r.Unlock()
	if err == nil {
		r.acks = append(r.acks, []any{index, result.MessageQueue.BrokerName, result.MessageQueue.QueueId, result.QueueOffset})
		return true
	}
	r.failed = append(r.failed, index)
	if len(r.errors) < errorsKept {
		r.errors = append(r.errors, err.Error())
	}
	return false
}
