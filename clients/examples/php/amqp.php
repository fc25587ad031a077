<?php
// Publishes two messages with a delay, consumes them when they are due, and records the acks: plain AMQP, no HTTP.

declare(strict_types=1);

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

require 'PhpAmqpLib/autoload.php'; // of Debian's php-amqplib; with Composer: vendor/autoload.php

$topic = getenv('TOPIC');
$url = parse_url(getenv('AMQP_URL'));
$vhost = rawurldecode(substr($url['path'] ?? '/%2F', 1));
$connection = new AMQPStreamConnection($url['host'], $url['port'] ?? 5672, $url['user'], $url['pass'], $vhost);
$channel = $connection->channel();
$channel->confirm_select();
$channel->set_nack_handler(fn () => throw new RuntimeException('RabbitMQ did not take the message'));
$channel->basic_qos(0, 10, false);

/** Returns when RabbitMQ has confirmed the message. */
function publish(AMQPChannel $channel, string $exchange, string $key, AMQPMessage $message): void
{
    $channel->basic_publish($message, $exchange, $key, true);
    $channel->wait_for_pending_acks_returns(10);
}

$id = uniqid('order-');
$properties = ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT, 'content_type' => 'application/json'];
// A bridge gives this message a record at once, so that it can be looked up, moved and deleted by its id.
$headers = new AMQPTable(['x-delay' => 1000]); // milliseconds
$later = $properties + ['message_id' => $id, 'application_headers' => $headers];
publish($channel, 'delay.in', $topic, new AMQPMessage('{"order":1001}', $later));
echo "sent $id\n";

// No bridge is involved. The key is the delay, digit by digit: days (3), hours, minutes, seconds, tenths.
$byKey = $properties + ['message_id' => "$id-by-key"];
publish($channel, 'delay', "0.0.0.0.0.1.0.$topic", new AMQPMessage('{"order":1001}', $byKey));
echo "sent $id-by-key\n";

$left = 2;
$channel->basic_consume("ready.$topic", callback: function (AMQPMessage $got) use ($channel, $topic, &$left): void {
    $gotId = $got->get('message_id');
    echo "got $gotId {$got->getBody()}\n";
    // Tells the bridge, so that the message's record says acked. The broker's ack comes last.
    // The moment of creation tells the message apart from another one of its id.
    $received = $got->get('application_headers')->getNativeData();
    $created = new AMQPTable(['x-delay-created' => $received['x-delay-created']]);
    $done = new AMQPMessage('', ['message_id' => $gotId, 'application_headers' => $created]);
    publish($channel, 'delay.done', $topic, $done);
    $got->ack();
    echo "acked $gotId\n";
    if (--$left === 0) {
        $got->getChannel()->basic_cancel($got->getConsumerTag());
    }
});
while ($channel->is_consuming()) {
    $channel->wait();
}
$connection->close();
