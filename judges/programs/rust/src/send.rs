use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rocketmq_client_rust::*;
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_model::common::message::MessageTrait;
use serde_json::{json, Value};
use tokio::sync::Semaphore;

use crate::payload::body;
use crate::request::Request;
use crate::Given;

const ERRORS_KEPT: usize = 5;
const IN_FLIGHT: usize = 64;
const TIMEOUT_MS: u64 = 10_000;
const WANT_PROPERTY: &str = "judge-outcome";

/// What became of every message of one request.
struct Tally {
    began: Instant,
    statuses: BTreeMap<String, usize>,
    queues: BTreeMap<String, usize>,
    failed: Vec<usize>,
    errors: Vec<String>,
}

impl Tally {
    fn new() -> Self {
        Tally { began: Instant::now(), statuses: BTreeMap::new(), queues: BTreeMap::new(), failed: vec![], errors: vec![] }
    }

    fn told(&mut self, first: usize, count: usize, result: &ClientResult<Option<SendResult>>) {
        match result {
            Ok(Some(sent)) => self.sent(count, sent),
            Ok(None) => {}
            Err(error) => self.failed(first, count, error),
        }
    }

    fn sent(&mut self, count: usize, sent: &SendResult) {
        let status = match sent.send_status {
            SendStatus::SendOk => "SEND_OK",
            SendStatus::FlushDiskTimeout => "FLUSH_DISK_TIMEOUT",
            SendStatus::FlushSlaveTimeout => "FLUSH_SLAVE_TIMEOUT",
            SendStatus::SlaveNotAvailable => "SLAVE_NOT_AVAILABLE",
        };
        *self.statuses.entry(status.to_string()).or_default() += count;
        if let Some(queue) = &sent.message_queue {
            let place = format!("{}:{}", queue.broker_name(), queue.queue_id());
            *self.queues.entry(place).or_default() += count;
        }
    }

    fn failed(&mut self, first: usize, count: usize, error: &ClientError) {
        self.failed.extend(first..first + count);
        if self.errors.len() < ERRORS_KEPT {
            self.errors.push(error.to_string());
        }
    }

    fn answer(&self) -> Value {
        json!({
            "statuses": self.statuses, "queues": self.queues, "failed": self.failed, "errors": self.errors,
            "elapsed_ms": self.began.elapsed().as_millis() as u64,
        })
    }
}

#[derive(Default)]
struct Asked {
    checks: u32,
    answer: String,
}

/// Decides a transaction as its message says and counts the broker's questions.
struct Undecided(Arc<Mutex<Asked>>);

fn state(outcome: &str) -> LocalTransactionState {
    match outcome {
        "" | "commit" => LocalTransactionState::CommitMessage,
        "rollback" => LocalTransactionState::RollbackMessage,
        _ => LocalTransactionState::Unknown,
    }
}

impl TransactionListener for Undecided {
    fn execute_local_transaction(&self, message: &dyn MessageTrait, _: Option<&(dyn Any + Send + Sync)>) -> LocalTransactionState {
        let wanted = message.property(&WANT_PROPERTY.into());
        state(wanted.as_ref().map_or("", |outcome| outcome.as_str()))
    }

    fn check_local_transaction(&self, _: &MessageExt) -> LocalTransactionState {
        let mut asked = self.0.lock().unwrap();
        asked.checks += 1;
        state(&asked.answer)
    }
}

pub struct Senders {
    runtime: Arc<ClientRuntime>,
    plain: HashMap<String, DefaultMQProducer>,
    transactional: HashMap<String, TransactionMQProducer>,
    asked: HashMap<String, Arc<Mutex<Asked>>>,
}

impl Senders {
    pub fn new(runtime: Arc<ClientRuntime>) -> Self {
        Senders { runtime, plain: HashMap::new(), transactional: HashMap::new(), asked: HashMap::new() }
    }

    pub async fn reset(&mut self) {
        for (_, mut producer) in self.plain.drain() {
            producer.shutdown().await;
        }
        for (_, mut producer) in self.transactional.drain() {
            producer.shutdown().await;
        }
        self.asked.clear();
    }

    pub fn checks(&self, asked: &Request) -> Value {
        json!({"checks": self.asked.get(&key(asked)).map_or(0, |known| known.lock().unwrap().checks)})
    }

    pub async fn send(&mut self, asked: &Request) -> Given {
        match asked.mode.as_str() {
            "transaction" => self.send_in_transactions(asked).await,
            "sync" | "async" | "oneway" | "ordered" | "batch" => self.send_plainly(asked).await,
            mode => Ok(json!({"unsupported": format!("the Rust judge does not send in mode {mode}")})),
        }
    }

    /// Sends messages for a time, which one of the setters of the client says; the client shows no handles.
    pub async fn send_timed(&mut self, asked: &Request) -> Given {
        let producer = self.producer(asked).await?;
        let value: u64 = asked.value.parse()?;
        for index in 0..asked.count {
            let mut timed = message(asked, index);
            match asked.setter.as_str() {
                "setDelayTimeSec" => timed.set_delay_time_sec(value),
                "setDelayTimeMs" => timed.set_delay_time_ms(value),
                _ => timed.set_deliver_time_ms(value),
            }
            producer.send(timed).await?;
        }
        Ok(json!({"handles": []}))
    }

    async fn producer(&mut self, asked: &Request) -> Result<&mut DefaultMQProducer, Box<dyn Error>> {
        let key = key(asked);
        if !self.plain.contains_key(&key) {
            let timeout_ms = if asked.timeout_ms > 0 { asked.timeout_ms } else { TIMEOUT_MS };
            let mut producer = DefaultMQProducer::builder(self.runtime.clone())
                .producer_group(asked.group.clone())
                .name_server_addr(asked.name_server.clone())
                .send_msg_timeout(timeout_ms as u32)
                .build();
            producer.start().await?;
            self.plain.insert(key.clone(), producer);
        }
        Ok(self.plain.get_mut(&key).expect("just made"))
    }

    async fn send_plainly(&mut self, asked: &Request) -> Given {
        let producer = self.producer(asked).await?;
        if asked.mode == "async" {
            return send_with_callbacks(producer, asked).await;
        }
        let (mut tally, end) = (Tally::new(), asked.first + asked.count);
        let step = if asked.mode == "batch" { asked.batch.max(1) } else { 1 };
        for first in (asked.first..end).step_by(step) {
            let count = step.min(end - first);
            let result = match asked.mode.as_str() {
                "batch" => producer.send_batch((first..first + count).map(|index| message(asked, index)).collect()).await.map(Some),
                "oneway" => producer.send_oneway(message(asked, first)).await.map(|_| None),
                "ordered" => {
                    let shard = first % asked.shards.max(1);
                    let choose = |queues: &[_], _: &Message, shard: &usize| queues.get(*shard % queues.len()).cloned();
                    producer.send_with_selector(message(asked, first), choose, shard).await
                }
                _ => producer.send(message(asked, first)).await,
            };
            tally.told(first, count, &result);
        }
        Ok(tally.answer())
    }

    async fn send_in_transactions(&mut self, asked: &Request) -> Given {
        let key = key(asked);
        let listener = self.asked.entry(key.clone()).or_default().clone();
        listener.lock().unwrap().answer = asked.check.clone();
        if !self.transactional.contains_key(&key) {
            let mut producer = TransactionMQProducer::builder(self.runtime.clone())
                .producer_group(asked.group.clone())
                .name_server_addr(asked.name_server.clone())
                .send_msg_timeout(asked.timeout_ms as u32)
                .topics(vec![asked.topic.clone()])
                .transaction_listener(Undecided(listener))
                .build();
            producer.start().await?;
            self.transactional.insert(key.clone(), producer);
        }
        let producer = self.transactional.get_mut(&key).expect("just made");
        let mut tally = Tally::new();
        for index in asked.first..asked.first + asked.count {
            let result = producer.send_message_in_transaction::<(), _>(message(asked, index), None).await;
            tally.told(index, 1, &result.map(|sent| sent.send_result));
        }
        Ok(tally.answer())
    }
}

/// Sends with many messages in flight; the answer comes when the last callback was called.
async fn send_with_callbacks(producer: &DefaultMQProducer, asked: &Request) -> Given {
    let (tally, window) = (Arc::new(Mutex::new(Tally::new())), Arc::new(Semaphore::new(IN_FLIGHT)));
    for index in asked.first..asked.first + asked.count {
        let place = Mutex::new(Some(window.clone().acquire_owned().await?));
        let told = tally.clone();
        let callback = move |sent: Option<&SendResult>, error: Option<&ClientError>| {
            if place.lock().unwrap().take().is_none() {
                return;
            }
            match (sent, error) {
                (_, Some(error)) => told.lock().unwrap().failed(index, 1, error),
                (Some(sent), None) => told.lock().unwrap().sent(1, sent),
                (None, None) => {}
            }
        };
        producer.send_with_callback(message(asked, index), callback).await?;
    }
    let patience = Duration::from_millis(asked.patience_ms);
    let all = tokio::time::timeout(patience, window.acquire_many(IN_FLIGHT as u32)).await;
    drop(all.map_err(|_| "not every callback came")??);
    let answer = tally.lock().unwrap().answer();
    Ok(answer)
}

fn key(asked: &Request) -> String {
    format!("{} {}", asked.name_server, asked.group)
}

fn message(asked: &Request, index: usize) -> Message {
    let content = body(&asked.prefix, index, asked.size);
    let mut made = Message::builder().topic(asked.topic.as_str()).body_slice(&content).build_unchecked();
    for (name, value) in &asked.properties {
        MessageTrait::put_property(&mut made, name.as_str().into(), value.as_str().into());
    }
    if !asked.tags.is_empty() {
        made.set_tags(asked.tags[index % asked.tags.len()].as_str().into());
    }
    if asked.keys {
        made.set_keys(format!("{}-{index}", asked.prefix).into());
    }
    if asked.delay_level > 0 {
        made.set_delay_time_level(asked.delay_level);
    }
    if asked.mode == "transaction" {
        let outcome = asked.outcomes[index % asked.outcomes.len()].as_str();
        MessageTrait::put_property(&mut made, WANT_PROPERTY.into(), outcome.into());
    }
    made
}
