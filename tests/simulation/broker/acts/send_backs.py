"""Messages that consumers give back: those that were answered come again, or lie among the dead letters (F9)."""

from firearrow.protocol.requests.admin.topic import UpdateAndCreateTopic
from firearrow.protocol.requests.message.send import ConsumerSendMsgBack
from tests.simulation.broker.acts.act import Act, Stage, all_come
from tests.unit.broker.whole import Client, a_send

TOPIC = "B"
GROUP = "back"
DEAD_LETTERS = f"%DLQ%{GROUP}"
DEAD = -1
AFTER_A_SECOND = 1


class SendBacks(Act):
    """Sends messages and gives them back, some as dead letters."""

    name = "send-backs"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._places: list[tuple[int, bytes]] = []
        self._again: set[bytes] = set()
        self._dead: set[bytes] = set()

    async def step(self) -> None:
        """Send a message, or give an earlier one back: also while no new one is taken there is one to give back."""
        if not self._places or self.rng.random() < 0.5:
            await self._send()
        else:
            await self._give_back()

    async def _send(self) -> None:
        body = b"back:%06d" % self.number
        request = a_send(TOPIC, properties=f"UNIQ_KEY\x01BACK{self.number}\x02")
        reply = await self.ask(request, body, "sends to give back")
        if reply is not None and reply.code == 0:
            self._places.append((int(reply.answer.msg_id[-16:], 16), body))

    async def _give_back(self) -> None:
        physical, body = self._places.pop(self.rng.randrange(len(self._places)))
        is_dead = self.rng.random() < 0.5
        level = DEAD if is_dead else AFTER_A_SECOND
        back = ConsumerSendMsgBack(
            offset=physical, group=GROUP, delay_level=level, origin_topic=TOPIC, max_reconsume_times=16
        )
        reply = await self.ask(back)
        if reply is not None and reply.code == 0:
            (self._dead if is_dead else self._again).add(body)

    async def check(self, client: Client) -> None:
        self.looked_for(given_back=len(self._again), dead_letters=len(self._dead))
        await all_come(client, f"%RETRY%{GROUP}", self._again, "F9: messages that were given back")
        if self._dead:
            readable = UpdateAndCreateTopic(
                topic=DEAD_LETTERS, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
                topic_filter_type="SINGLE_TAG", order=False,
            )  # fmt: skip
            await client.ask(readable)
            await all_come(client, DEAD_LETTERS, self._dead, "F9: dead letters")
