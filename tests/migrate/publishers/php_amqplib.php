<?php
// Publishes as applications with php-amqplib do.

declare(strict_types=1);

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

require 'PhpAmqpLib/autoload.php';

$url = parse_url(getenv('AMQP_URL'));
$vhost = rawurldecode(substr($url['path'] ?? '/%2F', 1));
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass'], $vhost);
$channel = $connection->channel();
if (getenv('DECLARES')) {
    $arguments = new AMQPTable(['x-delayed-type' => getenv('KIND')]);
    $exchange = getenv('EXCHANGE');
    $channel->exchange_declare($exchange, 'x-delayed-message', false, true, false, false, false, $arguments);
    $channel->queue_declare(getenv('QUEUE'), false, true, false, false);
    $channel->queue_bind(getenv('QUEUE'), $exchange, getenv('KEY'));
}
$channel->confirm_select();
$channel->set_nack_handler(fn () => throw new RuntimeException('RabbitMQ did not take the message'));
for ($number = 0; $number < (int) getenv('COUNT'); $number++) {
    $delay = (int) getenv('DELAY_MS') + 50 * $number;
    $message = new AMQPMessage('at:' . $number . ':' . (int) (microtime(true) * 1000) . ':' . $delay, [
        'delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT,
        'application_headers' => new AMQPTable(['x-delay' => $delay]),
    ]);
    $channel->basic_publish($message, getenv('PUBLISH_TO'), getenv('KEY'));
}
$channel->wait_for_pending_acks(30);
$channel->close();
$connection->close();
