use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq_client_rust::*;
use rocketmq_model::common::consumer::consume_from_where::ConsumeFromWhere;
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::MessageTrait;
use rocketmq_protocol::protocol::heartbeat::message_model::MessageModel;
use serde_json::{json, Value};
use tokio::task::JoinHandle;

use crate::payload::digest;
use crate::request::Request;
use crate::Given;

const LOOK_EVERY: Duration = Duration::from_millis(20);
const POLL_MS: u64 = 200;

/// All that one consumer saw, in that order.
#[derive(Default)]
struct Deliveries {
    seen: Vec<Value>,
    accepted: usize,
}

#[derive(Clone)]
struct Listener {
    deliveries: Arc<Mutex<Deliveries>>,
    failures: i32,
    with_properties: bool,
}

impl Listener {
    /// Notes messages; false when one of them is to be delivered again.
    fn took(&self, messages: &[&MessageExt]) -> bool {
        let mut noted = self.deliveries.lock().unwrap();
        let mut whole = true;
        for message in messages {
            let failed = message.reconsume_times() < self.failures;
            whole &= !failed;
            noted.accepted += usize::from(!failed);
            noted.seen.push(self.described(message, failed));
        }
        whole
    }

    fn described(&self, message: &MessageExt, failed: bool) -> Value {
        let body = message.body().unwrap_or_default();
        let mut one = json!({
            "digest": digest(&body), "size": body.len(), "broker": message.broker_name(), "queue": message.queue_id(),
            "offset": message.queue_offset(), "tag": message.get_tags().unwrap_or_default().as_str(),
            "keys": MessageTrait::get_keys(message).unwrap_or_default().as_str(), "times": message.reconsume_times(),
            "born_ms": message.born_timestamp(), "stored_ms": message.store_timestamp(), "seen_ms": now_ms(),
            "failed": failed,
        });
        if self.with_properties {
            let properties = message.properties().iter().map(|(name, value)| (name.as_str(), value.as_str()));
            one["properties"] = json!(properties.collect::<HashMap<_, _>>());
        }
        one
    }
}

fn begin(asked: &Request) -> ConsumeFromWhere {
    match asked.start.as_str() {
        "last" => ConsumeFromWhere::ConsumeFromLastOffset,
        "timestamp" => ConsumeFromWhere::ConsumeFromTimestamp,
        _ => ConsumeFromWhere::ConsumeFromFirstOffset,
    }
}

fn model(asked: &Request) -> MessageModel {
    if asked.broadcast { MessageModel::Broadcasting } else { MessageModel::Clustering }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

impl MessageListenerConcurrently for Listener {
    fn consume_message(&self, messages: &[&MessageExt], _: &ConsumeConcurrentlyContext) -> ClientResult<ConsumeConcurrentlyStatus> {
        Ok(if self.took(messages) { ConsumeConcurrentlyStatus::ConsumeSuccess } else { ConsumeConcurrentlyStatus::ReconsumeLater })
    }
}

impl MessageListenerOrderly for Listener {
    fn consume_message(&self, messages: &[&MessageExt], _: &mut ConsumeOrderlyContext) -> ClientResult<ConsumeOrderlyStatus> {
        Ok(if self.took(messages) { ConsumeOrderlyStatus::Success } else { ConsumeOrderlyStatus::SuspendCurrentQueueAMoment })
    }
}

enum Consumer {
    Push(DefaultMQPushConsumer),
    Lite(Arc<DefaultLitePullConsumer>, Arc<AtomicBool>, JoinHandle<()>),
}

impl Consumer {
    async fn shutdown(self) {
        match self {
            Consumer::Push(mut consumer) => consumer.shutdown().await,
            Consumer::Lite(consumer, ends, polling) => {
                ends.store(true, Ordering::Relaxed);
                let _ = polling.await;
                consumer.shutdown().await;
            }
        }
    }
}

struct Receiver {
    consumer: Consumer,
    deliveries: Arc<Mutex<Deliveries>>,
}

pub struct Receivers {
    runtime: Arc<ClientRuntime>,
    running: HashMap<usize, Receiver>,
    handles: usize,
}

impl Receivers {
    pub fn new(runtime: Arc<ClientRuntime>) -> Self {
        Receivers { runtime, running: HashMap::new(), handles: 0 }
    }

    pub async fn reset(&mut self) {
        for (_, one) in self.running.drain() {
            one.consumer.shutdown().await;
        }
    }

    pub async fn subscribe(&mut self, asked: &Request) -> Given {
        let deliveries = Arc::new(Mutex::new(Deliveries::default()));
        let listener = Listener { deliveries: deliveries.clone(), failures: asked.failures, with_properties: asked.with_properties };
        let consumer = match asked.kind.as_str() {
            "push" => self.push(asked, listener).await?,
            "lite" => self.poll(asked, listener).await?,
            kind => return Ok(json!({"unsupported": format!("the Rust judge has no consumer of kind {kind}")})),
        };
        self.handles += 1;
        self.running.insert(self.handles, Receiver { consumer, deliveries });
        Ok(json!({"handle": self.handles}))
    }

    /// The name of a new consumer, without which two that broadcast would be one.
    fn instance(&self, asked: &Request) -> String {
        if asked.instance.is_empty() {
            format!("receiver-{}-{}", self.handles + 1, std::process::id())
        } else {
            asked.instance.clone()
        }
    }

    async fn push(&self, asked: &Request, listener: Listener) -> Result<Consumer, Box<dyn Error>> {
        let mut config = ClientConfig::default();
        config.set_instance_name(self.instance(asked).into());
        let mut builder = DefaultMQPushConsumer::builder(self.runtime.clone())
            .client_config(config)
            .consumer_group(asked.group.clone())
            .name_server_addr(asked.name_server.clone())
            .message_model(model(asked))
            .consume_from_where(begin(asked));
        if asked.start == "timestamp" {
            builder = builder.consume_timestamp(asked.timestamp.clone());
        }
        if let Some(times) = asked.max_reconsume {
            builder = builder.max_reconsume_times(times);
        }
        let mut consumer = builder.build();
        if asked.sql {
            consumer.subscribe_with_selector(&asked.topic, Some(MessageSelector::by_sql(asked.expression.as_str()))).await?;
        } else {
            consumer.subscribe(asked.topic.as_str(), asked.expression.as_str()).await?;
        }
        if asked.ordered {
            consumer.register_message_listener_orderly(listener);
        } else {
            consumer.register_message_listener_concurrently(listener);
        }
        consumer.start().await?;
        Ok(Consumer::Push(consumer))
    }

    async fn poll(&self, asked: &Request, listener: Listener) -> Result<Consumer, Box<dyn Error>> {
        let consumer = DefaultLitePullConsumer::builder(self.runtime.clone())
            .instance_name(self.instance(asked))
            .consumer_group(asked.group.clone())
            .name_server_addr(asked.name_server.clone())
            .message_model(model(asked))
            .consume_from_where(begin(asked))
            .build()?;
        consumer.start().await?;
        if asked.sql {
            consumer.subscribe_with_selector(&asked.topic, Some(MessageSelector::by_sql(asked.expression.as_str()))).await?;
        } else {
            consumer.subscribe_with_expression(&asked.topic, &asked.expression).await?;
        }
        let (consumer, ends) = (Arc::new(consumer), Arc::new(AtomicBool::new(false)));
        let (polled, ended) = (consumer.clone(), ends.clone());
        let polling = tokio::spawn(async move {
            while !ended.load(Ordering::Relaxed) {
                let messages = polled.poll_with_timeout(POLL_MS).await;
                listener.took(&messages.iter().collect::<Vec<_>>());
            }
        });
        Ok(Consumer::Lite(consumer, ends, polling))
    }

    pub async fn collect(&self, asked: &Request) -> Given {
        let one = self.running.get(&asked.handle).ok_or("no such running consumer")?;
        let deadline = Instant::now() + Duration::from_millis(asked.timeout_ms);
        while !one.has(asked) && Instant::now() < deadline {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        tokio::time::sleep(Duration::from_millis(asked.settle_ms)).await;
        Ok(json!({"deliveries": one.deliveries.lock().unwrap().seen}))
    }

    pub fn count(&self, asked: &Request) -> Given {
        let one = self.running.get(&asked.handle).ok_or("no such running consumer")?;
        let noted = one.deliveries.lock().unwrap();
        Ok(json!({"deliveries": noted.seen.len(), "accepted": noted.accepted}))
    }

    pub async fn close(&mut self, asked: &Request) -> Given {
        let one = self.running.remove(&asked.handle).ok_or("no such running consumer")?;
        one.consumer.shutdown().await;
        Ok(json!({}))
    }
}

impl Receiver {
    fn has(&self, asked: &Request) -> bool {
        let noted = self.deliveries.lock().unwrap();
        (if asked.deliveries { noted.seen.len() } else { noted.accepted }) >= asked.count
    }
}
