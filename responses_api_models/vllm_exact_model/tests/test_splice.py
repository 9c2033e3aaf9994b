"""Prompts that continue: where the prefix ends and the template goes on, and the images in both."""

import pytest

from responses_api_models.vllm_exact_model.splice import Call, NotContinuable, continued, rendered

PAD, END, BEGIN = 90, 91, 92
MARK = [80, 81, 82]
FIRST = Call(prompt=[1, PAD, PAD, 2, BEGIN], generated=[10, 11, END])
# The template writes the task, the mark and the next turn; its first image is a small one.
TAIL = [END, 3, PAD, PAD, PAD, 4, BEGIN]
RENDERED = [1, PAD, 2, BEGIN, *MARK, *TAIL]
IMAGES = [(1, 1), (9, 3)]


def test_the_end_of_the_turn_is_there_once() -> None:
    prompt = continued(FIRST, RENDERED, IMAGES, mark=MARK, images_before=1)
    assert prompt.ids == [*FIRST.prompt, *FIRST.generated, *TAIL[1:]]
    assert prompt.short == [1, PAD, 2, BEGIN, 10, 11, END, 3, PAD, 4, BEGIN]
    assert prompt.pad == PAD


def test_a_reply_that_was_cut_off_is_ended_by_the_template() -> None:
    cut = Call(FIRST.prompt, [10, 11])
    prompt = continued(cut, RENDERED, IMAGES, mark=MARK, images_before=1)
    assert prompt.ids == [*FIRST.prompt, 10, 11, *TAIL]


def test_earlier_calls_may_be_written_in_any_way() -> None:
    second = Call([*FIRST.prompt, *FIRST.generated, 5, PAD, PAD, BEGIN], [12, END])
    ids = [1, PAD, 2, BEGIN, 70, 71, END, 5, PAD, BEGIN, *MARK, *TAIL]
    images = [(1, 1), (8, 1), (15, 3)]
    prompt = continued(second, ids, images, mark=MARK, images_before=2)
    assert prompt.ids == [*second.prompt, *second.generated, *TAIL[1:]]
    assert prompt.short.count(PAD) == 3


def test_a_mark_joined_with_what_is_before_and_an_earlier_one_are_told_apart() -> None:
    ids = [*MARK, 1, PAD, 2, 99, *MARK[1:], *TAIL]
    prompt = continued(FIRST, ids, [(4, 1), (11, 3)], mark=MARK, images_before=1)
    assert prompt.ids == [*FIRST.prompt, *FIRST.generated, *TAIL[1:]]


def test_a_conversation_without_images() -> None:
    call = Call([1, BEGIN], [10, END])
    prompt = continued(call, [1, BEGIN, *MARK, END, 3], [], mark=MARK, images_before=0)
    assert (prompt.ids, prompt.short, prompt.pad) == ([1, BEGIN, 10, END, 3],) * 2 + (None,)


@pytest.mark.parametrize(
    ("call", "ids", "images", "before", "why"),
    [
        (FIRST, [1, PAD, 2, *TAIL], [(1, 1), (5, 3)], 1, "does not write a reply's text"),
        (FIRST, RENDERED[:7], IMAGES[:1], 1, "writes nothing behind"),
        (FIRST, RENDERED, IMAGES, 2, "moves images"),
        (Call([1, BEGIN], [10, END]), RENDERED, IMAGES, 1, "hold 0 images and the messages 1"),
        (Call(FIRST.prompt, [10, PAD]), RENDERED, IMAGES, 1, "hold 2 images and the messages 1"),
        (FIRST, [1, 2, *RENDERED[2:]], [(0, 2), (9, 3)], 1, "not rows of one token"),
    ],
)
def test_tokens_of_another_conversation_are_not_used(
    call: Call, ids: list[int], images: list[tuple[int, int]], before: int, why: str
) -> None:
    with pytest.raises(NotContinuable, match=why):
        continued(call, ids, images, mark=MARK, images_before=before)


def test_a_rendered_prompt_has_one_token_per_image() -> None:
    prompt = rendered([1, PAD, PAD, PAD, 2, PAD], [(1, 2), (3, 1), (5, 1)])
    assert prompt.short == [1, PAD, PAD, 2, PAD]
    with pytest.raises(NotContinuable):
        rendered([1, PAD, 2], [(1, 2)])
