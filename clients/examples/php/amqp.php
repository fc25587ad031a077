<?php
// Publishes a message with a delay, consumes it when it is due, and records the ack: plain AMQP, without a bridge's API.

declare(strict_types=1);

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

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
$message = new AMQPMessage('{"order":1001}', [
    'message_id' => $id,
    'delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT,
    'content_type' => 'application/json',
]);
// The key is the delay, digit by digit: days (3), hours, minutes, seconds, tenths of a second. Here: one second.
publish($channel, 'delay', "0.0.0.0.0.1.0.$topic", $message);
echo "sent $id\n";

$channel->basic_consume("ready.$topic", callback: function (AMQPMessage $got) use ($channel, $topic, $id): void {
    $gotId = $got->get('message_id');
    echo "got $gotId {$got->getBody()}\n";
    // Tells the bridge, so that the message's record says acked. The broker's ack comes last.
    publish($channel, 'delay.done', $topic, new AMQPMessage('', ['message_id' => $gotId]));
    $got->ack();
    echo "acked $gotId\n";
    if ($gotId === $id) {
        $got->getChannel()->basic_cancel($got->getConsumerTag());
    }
});
while ($channel->is_consuming()) {
    $channel->wait();
}
$connection->close();
